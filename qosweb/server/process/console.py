"""What the node says of itself, on standard error: one line each, and no traceback.

What the group has to say (`cluster` knows only the loggers of Python) is said in the same voice, from warnings on.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from pathlib import Path


def say(message: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it; that is no reason to stop
        print(f"qosweb: {message}", file=sys.stderr, flush=True)


def place_of(error: BaseException) -> str:
    """Where a fault of ours happened."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "nowhere"


class GroupLogHandler(logging.Handler):
    """Says what the group logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        text = " ".join(record.getMessage().split())
        error = record.exc_info[1] if record.exc_info else None
        say(f"group: {text}" if error is None else f"group: {text} ({type(error).__name__} at {place_of(error)})")


def speak_for_the_group() -> None:
    logger = logging.getLogger("cluster")
    logger.addHandler(GroupLogHandler())
    logger.propagate = False
