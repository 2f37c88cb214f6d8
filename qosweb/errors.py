"""Errors that end a command with a one-line message and no traceback."""

import difflib
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class UsageError(Exception):
    """Invalid input by the user. The message says what is wrong, where, and what would be right. Exit code 2."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint with the most similar of the ``known`` words, or an empty text."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def read_option(parse: Callable[[str], T], text: str, option: str) -> T:
    """Parse the value of an option; a ValueError becomes a UsageError that names the option."""
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
