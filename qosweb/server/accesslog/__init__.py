"""Access log: one line for each request."""
