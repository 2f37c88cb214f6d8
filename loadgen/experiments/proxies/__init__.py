"""Other servers as processes, in front of a slow one: what a site would take instead. Only those that are installed."""
