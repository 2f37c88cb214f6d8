"""Local state of one node: its own requests and what it sends to the others."""
