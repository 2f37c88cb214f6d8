"""The admin port: status, metrics and dashboard."""
