"""Errors that end a command with a one-line message and no traceback."""


class UsageError(Exception):
    """Invalid input by the user. The message says what is wrong, where, and what would be right. Exit code 2."""
