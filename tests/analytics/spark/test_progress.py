"""The line that changes in a terminal, and what else is written there; plain lines elsewhere; what Spark is asked."""

from __future__ import annotations

import io
import re
from typing import Any

from qosweb.analytics.spark.progress import WIDTH, ProgressDisplay
from qosweb.analytics.spark.spark_progress import SparkProgress, SparkTracker
from tests.support.waiting import wait_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_is_gone_while_something_else_is_written() -> None:
    terminal = Terminal()
    with ProgressDisplay(quiet=False, to=terminal) as progress:
        progress.say("adding up")
        wait_for(lambda: "adding up" in terminal.getvalue(), "the line", 30)
        with progress.silence():
            terminal.write("held\n")
        before = len(terminal.getvalue())
        wait_for(lambda: len(terminal.getvalue()) > before, "the line again", 30)
    first, rest = terminal.getvalue().split("held\n")
    assert first.endswith("\r" + " " * WIDTH + "\r")
    assert rest.startswith("\r")


class Told:
    """A tracker that says what the test wants, or that its session has ended."""

    def __init__(self, work: SparkProgress | None) -> None:
        self.work = work

    def look(self) -> SparkProgress:
        if self.work is None:
            raise ConnectionError("the JVM has ended")
        return self.work


def test_a_terminal_shows_stages_tasks_and_rows() -> None:
    terminal = Terminal()
    with ProgressDisplay(quiet=False, to=terminal) as progress:
        tracker = Told(SparkProgress(stages_done=3, tasks_done=7, tasks=22, rows=3_180_000))
        progress.say("adding up")
        progress.watch(tracker)
        shown = "adding up: 7 of 22 tasks, 3 stages done, 3,180,000 rows read"
        wait_for(lambda: shown in terminal.getvalue(), "the work", 30)
        tracker.work = None
        before = len(terminal.getvalue())
        wait_for(lambda: "adding up  " in terminal.getvalue()[before:], "the step alone", 30)


def test_elsewhere_a_step_begins_with_a_line_that_says_what_was_done() -> None:
    file = io.StringIO()
    with ProgressDisplay(quiet=False, to=file) as progress:
        tracker = Told(SparkProgress())
        progress.say("starting")
        progress.watch(tracker)
        tracker.work = SparkProgress(stages_done=1, tasks_done=2, tasks=9, rows=1500)
        progress.say("judging")
        tracker.work = None
        progress.say("writing")
    assert re.sub(r"\(\d+ s", "(0 s", file.getvalue()).splitlines() == [
        "qosweb: starting (0 s)",
        "qosweb: judging (0 s; 1 stage done, 1,500 rows read)",
        "qosweb: writing (0 s)",
    ]
    quiet = io.StringIO()
    with ProgressDisplay(quiet=True, to=quiet) as progress:
        progress.watch(Told(SparkProgress(1, 2, 3, 4)))
        progress.say("starting")
    assert quiet.getvalue() == ""


class Stage:
    def __init__(self, done: int, tasks: int, rows: int) -> None:
        self.numCompleteTasks, self.numTasks, self.inputRecords = lambda: done, lambda: tasks, lambda: rows


class Spark:
    """What a session has of its own bookkeeping, as far as it is asked."""

    def __init__(self) -> None:
        self.stages: dict[int, Stage] = {}
        self.active: list[int] = []
        self.ended = 0

    def __getattr__(self, _: str) -> Any:
        return self  # the session is its own context, and so on, down to the store

    def __call__(self) -> Any:
        return self

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 - Spark's name
        return self.active

    def lastStageAttempt(self, stage: int) -> Stage:  # noqa: N802 - Spark's name
        return self.stages[stage]

    def numCompletedStages(self) -> int:  # noqa: N802 - Spark's name
        return self.ended


def test_rows_of_stages_that_ended_are_not_forgotten() -> None:
    spark: Any = Spark()
    tracker = SparkTracker(spark)
    assert tracker.look() == SparkProgress()
    spark.stages, spark.active = {0: Stage(5, 21, 1000)}, [0]
    assert tracker.look() == SparkProgress(0, 5, 21, 1000)
    spark.stages, spark.active, spark.ended = {0: Stage(21, 21, 4000), 2: Stage(1, 4, 30)}, [2], 1
    assert tracker.look() == SparkProgress(1, 1, 4, 4030)
    spark.active, spark.ended = [], 2
    assert tracker.look() == SparkProgress(2, 0, 0, 4030)
