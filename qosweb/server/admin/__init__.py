"""Admin port: status, metrics and dashboard."""
