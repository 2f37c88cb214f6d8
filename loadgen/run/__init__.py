"""A run: worker processes, their jobs and their progress."""
