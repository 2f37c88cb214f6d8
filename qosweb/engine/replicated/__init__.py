"""Replicated state: equal on all nodes, changed only by ordered entries."""
