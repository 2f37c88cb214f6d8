"""Subcommands of ``loadgen``: their options and what they do."""
