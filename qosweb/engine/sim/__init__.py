"""The engine in the group's simulator: simulated HTTP nodes with clients, under the faults of the group's own plans."""
