"""Explores many seeds: sums up fault and clause coverage, and stops at the first failure.

Pure: the caller decides how runs are distributed over processors and when the time is up. A report adds up the faults
that took effect and the specification clauses that were exercised, so that it also shows what was never tested.
Above: the command line.  Below: run.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.sim.run import RunResult


class SeedTask(msgspec.Struct, frozen=True):
    """One seed to run, in a form that can be sent to a worker process."""

    seed: int
    nodes_min: int
    nodes_max: int
    interim: bool = False

    @property
    def options(self) -> str:
        """The options needed besides the seed to repeat the run."""
        service = " --interim" if self.interim else ""
        if (self.nodes_min, self.nodes_max) == (3, 7):
            return service
        return f" --nodes {self.nodes_min}..{self.nodes_max}{service}"


class ExplorationReport:
    """Coverage of the runs so far."""

    def __init__(self) -> None:
        self.runs = 0
        self.steps = 0
        self.events = 0
        self.seconds = 0.0
        self.sometimes: Counter[str] = Counter()
        self.runs_with: Counter[str] = Counter()
        self.clauses: Counter[str] = Counter()
        self.failed: RunResult | None = None

    def add(self, outcome: RunResult) -> None:
        self.runs += 1
        self.steps += outcome.steps
        self.events += outcome.events
        self.seconds += outcome.seconds
        self.sometimes.update(outcome.sometimes)
        self.runs_with.update(outcome.sometimes.keys())
        for clause, count in outcome.clauses.items():
            self.clauses[clause] += count  # also if it is 0: the report shows clauses that were never exercised
        if outcome.failure is not None and self.failed is None:
            self.failed = outcome

    def progress(self) -> str:
        return f"{self.runs} runs, {self.steps} actions, {self.seconds:.0f} virtual seconds"

    def coverage(self) -> str:
        """Two tables: faults that took effect (times, and in how many runs), and how often each clause decided."""
        lines = ["what happened in the runs", f"  {'times':>9} {'runs':>7}"]
        lines += [f"  {self.sometimes[what]:>9} {self.runs_with[what]:>7}  {what}" for what in sorted(self.sometimes)]
        if self.clauses:
            lines += ["", "clauses of the specifications", f"  {'times':>9}"]
            lines += [f"  {self.clauses[clause]:>9}  {clause}" for clause in sorted(self.clauses)]
            never = [clause for clause in sorted(self.clauses) if not self.clauses[clause]]
            lines += ["", f"{len(self.clauses) - len(never)} of {len(self.clauses)} clauses exercised"]
        return "\n".join(lines)


def explore(
    tasks: Iterator[SeedTask],
    outcomes: Callable[[Iterator[SeedTask]], Iterator[RunResult]],
    *,
    goes_on: Callable[[], bool],
    on_progress: Callable[[str], None],
    progress_every: int = 100,
) -> ExplorationReport:
    """Run tasks until one fails, none is left, or the time is up. `outcomes` runs them and yields results in order."""
    report = ExplorationReport()
    for outcome in outcomes(tasks):
        report.add(outcome)
        if report.failed is not None or not goes_on():
            break
        if report.runs % progress_every == 0:
            on_progress(report.progress())
    return report
