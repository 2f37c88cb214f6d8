"""Space-time diagrams of runs."""
