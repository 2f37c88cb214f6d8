"""Progress display on standard error: one updated line in a terminal, plain lines elsewhere.

A plain line is written when the next step begins, with the number of completed stages.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO

from qosweb.terminal_text import escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

EVERY_S = 0.5
WIDTH = 100


class SparkProgress(NamedTuple):
    """Stages completed since the session was opened, and tasks of the running stages."""

    stages_done: int = 0
    tasks_done: int = 0
    tasks: int = 0

    @property
    def so_far(self) -> str:
        return f"{self.stages_done} stage{'' if self.stages_done == 1 else 's'} done" if self.stages_done else ""

    @property
    def now(self) -> str:
        running = f"{self.tasks_done} of {self.tasks} tasks" if self.tasks else ""
        return ", ".join(part for part in (running, self.so_far) if part)


class ProgressSource(Protocol):
    def read_progress(self) -> SparkProgress: ...


class SparkTracker:
    """Reads the progress from Spark's status tracker."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._seen: set[int] = set()  # stages that have run
        self._jobs: set[int] = set()  # jobs that have ended, whose stages are in _seen

    def read_progress(self) -> SparkProgress:
        """Raises what Py4J raises if the session has ended."""
        running = set(self._tracker.getActiveStageIds())
        for job in set(self._tracker.getJobIdsForGroup()) - self._jobs:
            if (known := self._tracker.getJobInfo(job)) is not None and known.status != "RUNNING":
                self._jobs.add(job)
                self._seen.update(stage for stage in known.stageIds if self._has_run(stage))
        self._seen |= running
        infos = [info for stage in running if (info := self._tracker.getStageInfo(stage)) is not None]
        done = sum(info.numCompletedTasks for info in infos)
        return SparkProgress(len(self._seen - running), done, sum(info.numTasks for info in infos))

    def _has_run(self, stage: int) -> bool:
        """False for a stage that was skipped because its result existed already."""
        info = self._tracker.getStageInfo(stage)
        return info is not None and info.numCompletedTasks > 0


class ProgressDisplay:
    """Context manager; ``show_step`` names the current step, ``watch`` adds Spark's progress to it."""

    def __init__(self, *, quiet: bool, to: TextIO | None = None) -> None:
        self._to = to or sys.stderr
        self._quiet = quiet
        self._lively = not quiet and self._to.isatty()
        self._step = ""
        self._begun_s = time.monotonic()
        self._steps: list[tuple[str, float]] = []  # with the times at which they began
        self._tracker: ProgressSource | None = None
        self._looking = threading.Lock()
        self._over = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._refresh, daemon=True)

    def __enter__(self) -> ProgressDisplay:
        if self._lively:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._lively:
            self._thread.join()
            self._clear()

    def show_step(self, step: str) -> None:
        self._step = step = escape_controls(step)
        self._steps.append((step, time.monotonic()))
        if not self._quiet and not self._lively:
            so_far = self._work().so_far
            took = f"{time.monotonic() - self._begun_s:.0f} s{'; ' if so_far else ''}{so_far}"
            self._to.write(f"qosweb: {step} ({took})\n")
            self._to.flush()

    def timings(self) -> str:
        """How long each step took, one line each. Background queries count for the step that waits for them."""
        ends = [begun_s for _, begun_s in self._steps[1:]] + [time.monotonic()]
        took = [(step, end_s - begun_s) for (step, begun_s), end_s in zip(self._steps, ends, strict=True)]
        took.append(("total", ends[-1] - self._begun_s))
        return "".join(f"qosweb: {seconds:6.1f} s  {step}\n" for step, seconds in took)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Clears the line while something else is written to the terminal."""
        with self._writing:
            if self._lively:
                self._clear()
            yield

    def watch(self, tracker: ProgressSource | None) -> None:
        """Call with None before the session ends; after that the tracker is no longer used."""
        with self._looking:
            self._tracker = tracker

    def _refresh(self) -> None:
        while not self._over.wait(EVERY_S):
            now = self._work().now
            text = f"{time.monotonic() - self._begun_s:5.0f} s  {self._step}{': ' if now else ''}{now}"
            with self._writing:
                self._to.write("\r" + text[:WIDTH].ljust(WIDTH))
                self._to.flush()

    def _clear(self) -> None:
        self._to.write("\r" + " " * WIDTH + "\r")
        self._to.flush()

    def _work(self) -> SparkProgress:
        """Spark's progress; empty if there is no session."""
        with self._looking:
            try:
                return self._tracker.read_progress() if self._tracker else SparkProgress()
            except Exception:
                return SparkProgress()
