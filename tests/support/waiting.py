"""Wait for a condition, with a time limit."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T | None], what: str, timeout_s: float = 60.0) -> T:
    """The first true value of ``condition``; fails the test with ``what`` if there is none in time."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s in vain for: {what}"
        time.sleep(0.01)
    return value
