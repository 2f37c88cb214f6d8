"""Subcommands of ``qosweb`` for specifications (such as check and shares) and for running nodes (such as status)."""
