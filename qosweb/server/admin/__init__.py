"""Admin port: status, metrics, dashboard, policy, releases and block list."""
