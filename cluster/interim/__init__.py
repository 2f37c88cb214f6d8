"""Interim-atomic data service: a replicated object that both sides of a partition may change, merged when they meet."""
