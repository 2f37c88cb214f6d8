"""Subcommands of ``python -m cluster`` for real members, such as node, key, send, receive, inspect and recover."""
