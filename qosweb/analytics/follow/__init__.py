"""Follow mode: analyses logs that are still growing."""
