"""The commands of ``python -m cluster``."""
