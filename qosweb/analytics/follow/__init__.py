"""Analyses logs that are still growing."""
