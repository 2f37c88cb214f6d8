"""Sends requests when they are due and reads the responses."""
