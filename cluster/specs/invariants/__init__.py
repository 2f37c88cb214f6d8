"""The papers' invariants as checkers of the joint state of all processes."""
