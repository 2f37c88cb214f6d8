"""Subcommands of ``python -m cluster`` for real members: node, chat, key, check, inspect, recover."""
