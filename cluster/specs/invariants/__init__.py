"""Checkers of the papers' invariants over the joint state of all processes."""
