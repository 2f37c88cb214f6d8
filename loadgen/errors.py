"""User errors: end a command with a one-line message and no traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class UsageError(Exception):
    """Invalid input from the user; the message says what is wrong, where, and what would be right. Exit code 2."""


def read(parse: Callable[[str], T], text: str, option: str) -> T:
    """Parse the value of an option; a ValueError becomes a UsageError that names the option."""
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
