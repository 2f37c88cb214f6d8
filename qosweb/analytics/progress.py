"""What is shown while Spark works, on standard error: one line that changes in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

EVERY_S = 0.5
WIDTH = 100


class Progress:
    """A with block; ``say`` names the step, ``watch`` lets the tasks of Spark be shown with it."""

    def __init__(self, *, quiet: bool, to: TextIO | None = None) -> None:
        self._to = to or sys.stderr
        self._quiet = quiet
        self._lively = not quiet and self._to.isatty()
        self._step = ""
        self._begun_s = time.monotonic()
        self._spark: SparkSession | None = None
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> Progress:
        if self._lively:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._lively:
            self._thread.join()
            self._clear()

    def say(self, step: str) -> None:
        self._step = step
        if not self._quiet and not self._lively:
            self._to.write(f"qosweb: {step} ({time.monotonic() - self._begun_s:.0f} s)\n")
            self._to.flush()

    @contextmanager
    def silence(self) -> Iterator[None]:
        """The line is not there meanwhile: something else is written in the same terminal."""
        with self._writing:
            if self._lively:
                self._clear()
            yield

    def watch(self, spark: SparkSession) -> None:
        self._spark = spark

    def _show(self) -> None:
        while not self._over.wait(EVERY_S):
            text = f"{time.monotonic() - self._begun_s:5.0f} s  {self._step}{self._tasks()}"
            with self._writing:
                self._to.write("\r" + text[:WIDTH].ljust(WIDTH))
                self._to.flush()

    def _clear(self) -> None:
        self._to.write("\r" + " " * WIDTH + "\r")
        self._to.flush()

    def _tasks(self) -> str:
        """How far the stages are that run now."""
        if self._spark is None:
            return ""
        try:
            tracker = self._spark.sparkContext.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:
            return ""
        known = [stage for stage in stages if stage is not None]
        done, total = sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
        return f": {done} of {total} tasks" if total else ""
