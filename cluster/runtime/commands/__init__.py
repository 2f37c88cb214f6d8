"""Subcommands of ``python -m cluster`` for real members: node, key, check, inspect, recover."""
