"""Logs, traces and metrics of a member."""
