"""What is shown while Spark works, on standard error: one line that changes in a terminal, plain lines elsewhere.

A plain line is written when another step begins, with what has been done until then. Both tell stages and rows.
Neighbours: ``spark_progress`` asks Spark how far it is.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from qosweb.analytics.spark.spark_progress import SparkProgress

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_S = 0.5
WIDTH = 100


class Looks(Protocol):
    def look(self) -> SparkProgress: ...


class ProgressDisplay:
    """A with block; ``say`` names the step, ``watch`` lets the work of Spark be shown with it."""

    def __init__(self, *, quiet: bool, to: TextIO | None = None) -> None:
        self._to = to or sys.stderr
        self._quiet = quiet
        self._lively = not quiet and self._to.isatty()
        self._step = ""
        self._begun_s = time.monotonic()
        self._tracker: Looks | None = None
        self._looking = threading.Lock()
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._keep_looking, daemon=True)

    def __enter__(self) -> ProgressDisplay:
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if not self._quiet:
            self._thread.join()
        if self._lively:
            self._clear()

    def say(self, step: str) -> None:
        self._step = step
        if not self._quiet and not self._lively:
            so_far = self._work().so_far
            took = f"{time.monotonic() - self._begun_s:.0f} s{'; ' if so_far else ''}{so_far}"
            self._to.write(f"qosweb: {step} ({took})\n")
            self._to.flush()

    @contextmanager
    def silence(self) -> Iterator[None]:
        """The line is not there meanwhile: something else is written in the same terminal."""
        with self._writing:
            if self._lively:
                self._clear()
            yield

    def watch(self, tracker: Looks | None) -> None:
        """None before its session ends: then nobody is asking when this returns."""
        with self._looking:
            self._tracker = tracker

    def _keep_looking(self) -> None:
        """Also where nothing is shown of it yet: rows of a stage that came and went unseen would be missing."""
        while not self._over.wait(EVERY_S):
            now = self._work().now
            if self._lively:
                text = f"{time.monotonic() - self._begun_s:5.0f} s  {self._step}{': ' if now else ''}{now}"
                with self._writing:
                    self._to.write("\r" + text[:WIDTH].ljust(WIDTH))
                    self._to.flush()

    def _clear(self) -> None:
        self._to.write("\r" + " " * WIDTH + "\r")
        self._to.flush()

    def _work(self) -> SparkProgress:
        """Nothing, if there is no session yet or no more."""
        with self._looking:
            try:
                return self._tracker.look() if self._tracker else SparkProgress()
            except Exception:
                return SparkProgress()
