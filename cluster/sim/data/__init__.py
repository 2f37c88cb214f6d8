"""The data service in the simulator: clients that block, give up and change nodes."""
