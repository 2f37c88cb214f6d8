"""The stack on real machines."""
