"""The node as a member of its cluster."""
