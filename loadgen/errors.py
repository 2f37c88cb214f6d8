"""Errors that end a command with one line for its user and no traceback."""


class UsageError(Exception):
    """What the user gave cannot work; the message says what, where, and what would be right. Exit code 2."""
