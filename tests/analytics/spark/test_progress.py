"""Progress display: the updated line in a terminal, plain lines elsewhere, and queries to Spark's status tracker."""

from __future__ import annotations

import io
import re
from typing import Any, NamedTuple

from qosweb.analytics.spark.progress import WIDTH, ProgressDisplay, SparkProgress, SparkTracker
from tests.support.waiting import wait_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_is_cleared_while_something_else_is_written() -> None:
    terminal = Terminal()
    with ProgressDisplay(quiet=False, to=terminal) as progress:
        progress.show_step("adding up")
        wait_for(lambda: "adding up" in terminal.getvalue(), "the line", 30)
        with progress.silence():
            terminal.write("held\n")
        before = len(terminal.getvalue())
        wait_for(lambda: len(terminal.getvalue()) > before, "the line again", 30)
    first, rest = terminal.getvalue().split("held\n")
    assert first.endswith("\r" + " " * WIDTH + "\r")
    assert rest.startswith("\r")


class Told:
    """A tracker that returns the given progress, or fails as if its session had ended."""

    def __init__(self, work: SparkProgress | None) -> None:
        self.work = work

    def read_progress(self) -> SparkProgress:
        if self.work is None:
            raise ConnectionError("the JVM has ended")
        return self.work


def test_a_terminal_shows_stages_and_tasks() -> None:
    terminal = Terminal()
    with ProgressDisplay(quiet=False, to=terminal) as progress:
        tracker = Told(SparkProgress(stages_done=3, tasks_done=7, tasks=22))
        progress.show_step("adding up")
        progress.watch(tracker)
        shown = "adding up: 7 of 22 tasks, 3 stages done"
        wait_for(lambda: shown in terminal.getvalue(), "the work", 30)
        tracker.work = None
        before = len(terminal.getvalue())
        wait_for(lambda: "adding up  " in terminal.getvalue()[before:], "the step alone", 30)


def test_without_a_terminal_each_step_is_a_line() -> None:
    file = io.StringIO()
    with ProgressDisplay(quiet=False, to=file) as progress:
        tracker = Told(SparkProgress())
        progress.show_step("starting")
        progress.watch(tracker)
        tracker.work = SparkProgress(stages_done=1, tasks_done=2, tasks=9)
        progress.show_step("judging")
        tracker.work = None
        progress.show_step("writing")
    assert re.sub(r"\(\d+ s", "(0 s", file.getvalue()).splitlines() == [
        "qosweb: starting (0 s)",
        "qosweb: judging (0 s; 1 stage done)",
        "qosweb: writing (0 s)",
    ]
    quiet = io.StringIO()
    with ProgressDisplay(quiet=True, to=quiet) as progress:
        progress.watch(Told(SparkProgress(1, 2, 3)))
        progress.show_step("starting")
    assert quiet.getvalue() == ""


class Stage(NamedTuple):
    numCompletedTasks: int  # noqa: N815 - Spark's name
    numTasks: int  # noqa: N815 - Spark's name


class Job(NamedTuple):
    status: str
    stageIds: list[int]  # noqa: N815 - Spark's name


class Spark:
    """A fake session, its context, and its status tracker."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.stages: dict[int, Stage] = {}
        self.jobs: dict[int, Job] = {}
        self.active: list[int] = []

    def statusTracker(self) -> Any:  # noqa: N802 - Spark's name
        return self

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 - Spark's name
        return self.active

    def getJobIdsForGroup(self) -> list[int]:  # noqa: N802 - Spark's name
        return list(self.jobs)

    def getJobInfo(self, job: int) -> Job:  # noqa: N802 - Spark's name
        return self.jobs[job]

    def getStageInfo(self, stage: int) -> Stage | None:  # noqa: N802 - Spark's name
        return self.stages.get(stage)


def test_stages_that_ended_are_counted_and_skipped_ones_are_not() -> None:
    spark: Any = Spark()
    tracker = SparkTracker(spark)
    assert tracker.read_progress() == SparkProgress()
    spark.stages, spark.active, spark.jobs = {0: Stage(5, 21)}, [0], {0: Job("RUNNING", [0])}
    assert tracker.read_progress() == SparkProgress(0, 5, 21)
    spark.stages, spark.active = {0: Stage(21, 21), 1: Stage(4, 4), 2: Stage(0, 4), 3: Stage(1, 4)}, [3]
    spark.jobs = {0: Job("SUCCEEDED", [0]), 1: Job("SUCCEEDED", [1, 2]), 2: Job("RUNNING", [0, 3])}
    assert tracker.read_progress() == SparkProgress(2, 1, 4)
    spark.active, spark.jobs[2] = [], Job("SUCCEEDED", [0, 3])
    assert tracker.read_progress() == SparkProgress(3, 0, 0)
