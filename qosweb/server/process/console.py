"""Operator log on standard error: one line per message, without tracebacks.

Warnings and errors that `cluster` logs with Python's logging appear in the same form.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from pathlib import Path


def log_message(message: str) -> None:
    """Print one line for the operator."""
    with contextlib.suppress(OSError):  # standard error is closed: no reason to stop
        print(f"qosweb: {message}", file=sys.stderr, flush=True)


def place_of(error: BaseException) -> str:
    """File and line where ``error`` was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "nowhere"


class GroupLogHandler(logging.Handler):
    """Prints the group's log records as operator log lines."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        text = " ".join(record.getMessage().split())
        error = record.exc_info[1] if record.exc_info else None
        log_message(
            f"group: {text}" if error is None else f"group: {text} ({type(error).__name__} at {place_of(error)})"
        )


def install_group_log_handler() -> None:
    logger = logging.getLogger("cluster")
    logger.addHandler(GroupLogHandler())
    logger.propagate = False
