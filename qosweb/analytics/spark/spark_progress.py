"""How far Spark is with its work, as it keeps count of it itself: stages, tasks, rows read.

Neighbours: ``progress`` shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkProgress(NamedTuple):
    """``tasks`` are of the stages that run now; stages and rows are counted since the session was made."""

    stages_done: int = 0
    tasks_done: int = 0
    tasks: int = 0
    rows: int = 0

    @property
    def so_far(self) -> str:
        parts = [f"{self.stages_done} stage{'' if self.stages_done == 1 else 's'} done"] if self.stages_done else []
        return ", ".join([*parts, f"{self.rows:,} rows read"] if self.rows else parts)

    @property
    def now(self) -> str:
        parts = [f"{self.tasks_done} of {self.tasks} tasks"] if self.tasks else []
        return ", ".join([*parts, self.so_far] if self.so_far else parts)


class SparkTracker:
    """Asks Spark's own bookkeeping, which has rows of a stage only for that stage: they are added up here."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._rows: dict[int, int] = {}
        self._running: set[int] = set()

    def look(self) -> SparkProgress:
        """Raises whatever py4j raises, if the session has ended meanwhile."""
        tracker, store = self._context.statusTracker(), self._context._jsc.sc().statusStore()  # noqa: SLF001 - no other way
        running = set(tracker.getActiveStageIds())
        done = tasks = 0
        for stage in running | self._running:  # once more those that have ended since: their last rows
            known = store.lastStageAttempt(stage)
            self._rows[stage] = known.inputRecords()
            if stage in running:
                done, tasks = done + known.numCompleteTasks(), tasks + known.numTasks()
        self._running = running
        return SparkProgress(store.appSummary().numCompletedStages(), done, tasks, sum(self._rows.values()))
