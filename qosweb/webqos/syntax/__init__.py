"""Syntax of WebQoS: scanner, parser, syntax tree, printer, and diagnostics."""
