"""Simulator of the engine: simulated HTTP nodes and clients on the group's simulator, under the same faults."""
