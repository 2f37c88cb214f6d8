"""Reads access logs into DataFrames and aggregates them."""
