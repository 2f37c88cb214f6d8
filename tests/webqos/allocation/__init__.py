"""Shares and feasibility."""
