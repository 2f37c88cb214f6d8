"""Tests of shares and feasibility."""
