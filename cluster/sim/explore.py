"""Exploring: many seeds, what they met, and the first one that fails.

Pure: whoever calls decides how runs are spread over processors and when the time is up. A report adds up the faults
that took effect and the clauses of the specifications that were exercised, so that a run of many seeds also shows what
it never looked at.
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
    """One seed to run, as it travels to whoever runs it."""

    seed: int
    nodes_min: int
    nodes_max: int

    @property
    def options(self) -> str:
        """What has to be said besides the seed to see the same run."""
        if (self.nodes_min, self.nodes_max) == (3, 7):
            return ""
        return f" --nodes {self.nodes_min}..{self.nodes_max}"


class ExplorationReport:
    """What the runs so far have shown."""

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
            self.clauses[clause] += count  # also where it is 0: a clause that was never met is to be seen
        if outcome.failure is not None and self.failed is None:
            self.failed = outcome

    def progress(self) -> str:
        return f"{self.runs} runs, {self.steps} actions, {self.seconds:.0f} virtual seconds"

    def coverage(self) -> str:
        """Two tables: what took effect (times, and in how many runs), and which clauses decided how often."""
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
    tell: Callable[[str], None],
    tell_every: int = 100,
) -> ExplorationReport:
    """Run these until one fails, none is left, or the time is up. `outcomes` runs them, in their order."""
    report = ExplorationReport()
    for outcome in outcomes(tasks):
        report.add(outcome)
        if report.failed is not None or not goes_on():
            break
        if report.runs % tell_every == 0:
            tell(report.progress())
    return report
