"""Admission control: decides which request may start, when and at what rate."""
