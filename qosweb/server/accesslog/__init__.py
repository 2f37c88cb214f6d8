"""The access log: one line for each request."""
