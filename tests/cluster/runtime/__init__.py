"""Tests of the stack on real machines."""
