"""Runs the real protocol stack (`cluster.stack.Process`) in the simulator, checked by the specifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.sim.plan import RunPlan, make_plan
from cluster.sim.run import RunFailure, RunResult, run
from cluster.sim.spec_judge import Specifications
from cluster.stack import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.sim.explore import SeedTask
    from cluster.sim.world import FrameListener


def play(plan: RunPlan, listener: FrameListener | None = None) -> RunResult:
    """Run a plan."""
    return run(plan, Process, Specifications(plan.names[0]), listener)


def run_task(task: SeedTask) -> RunResult:
    """Run the seed of a task."""
    return play(make_plan(task.seed, task.nodes_min, task.nodes_max))


def same_failure(wanted: RunFailure) -> Callable[[RunPlan], bool]:
    """Returns a predicate: whether a plan fails in the same way."""

    def fails(plan: RunPlan) -> bool:
        failure = play(plan).failure
        return failure is not None and failure.kind == wanted.kind

    return fails
