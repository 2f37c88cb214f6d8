"""Replicated state: equal on all nodes, changed only by totally ordered entries."""
