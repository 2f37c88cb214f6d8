"""Operator log on standard error: one line per message, without tracebacks.

Warnings and errors that `cluster` and the admin port log with Python's logging appear in the same form.
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


class OperatorLogHandler(logging.Handler):
    """Prints log records of the part `part` of a node as operator log lines."""

    def __init__(self, part: str) -> None:
        super().__init__(logging.WARNING)
        self._part = part

    def emit(self, record: logging.LogRecord) -> None:
        text = " ".join(record.getMessage().split())
        error = record.exc_info[1] if record.exc_info else None
        where = "" if error is None else f" ({type(error).__name__} at {place_of(error)})"
        log_message(f"{self._part}: {text}{where}")


def install_log_handler(name: str, part: str) -> None:
    """Print the records of the logger `name` as messages of `part`."""
    logger = logging.getLogger(name)
    logger.addHandler(OperatorLogHandler(part))
    logger.propagate = False
