"""The simulator around the real stack: `cluster.stack.Process` in every node, the specifications as its judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.sim.judges import Specifications
from cluster.sim.plan import Plan, make_plan
from cluster.sim.run import Failure, Outcome, run
from cluster.stack import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.sim.explore import Task
    from cluster.sim.world import Listener


def play(plan: Plan, listener: Listener | None = None) -> Outcome:
    return run(plan, Process, Specifications(plan.names[0]), listener)


def run_task(task: Task) -> Outcome:
    return play(make_plan(task.seed, task.nodes_min, task.nodes_max))


def same_failure(wanted: Failure) -> Callable[[Plan], bool]:
    """Whether a plan fails in this way too."""

    def fails(plan: Plan) -> bool:
        failure = play(plan).failure
        return failure is not None and failure.kind == wanted.kind

    return fails
