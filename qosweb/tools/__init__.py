"""Subcommands of ``qosweb``: check, explain, fmt and shares for specifications; status, reload and drain for nodes."""
