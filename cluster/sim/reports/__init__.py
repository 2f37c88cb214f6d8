"""Semantically reliable broadcast in the simulator, with the real membership below it."""
