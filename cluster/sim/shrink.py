"""Shrinks the plan of a failing run to fewer steps that still fail.

Delta debugging (Zeller, Hildebrandt, 2002) over faults and submissions together: remove ever smaller parts and keep
what still fails. Deterministic, with a bounded number of runs. "Still fails" means in the same way: by the same
specification, or again for lack of liveness.
Above: the command line.  Below: run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.sim.faults import AnyFault
from cluster.sim.plan import Operation, RunPlan, Submission

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS_MAX = 300

Step = AnyFault | Submission | Operation


def shrink(plan: RunPlan, fails: Callable[[RunPlan], bool], *, runs_max: int = RUNS_MAX) -> RunPlan:
    """The smallest failing plan found. `fails` runs a plan and returns whether it fails in the same way."""
    runs = 0

    def still_fails(steps: list[Step]) -> bool:
        nonlocal runs
        runs += 1
        return fails(_with_steps(plan, steps))

    steps: list[Step] = [*plan.faults, *plan.submissions, *plan.operations]
    parts = 2
    while steps and runs < runs_max:
        size = -(-len(steps) // parts)
        for start in range(0, len(steps), size):
            rest = steps[:start] + steps[start + size :]
            if still_fails(rest):
                steps = rest
                parts = max(parts - 1, 2)
                break
            if runs >= runs_max:
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(steps))
    return _with_steps(plan, steps)


def _with_steps(plan: RunPlan, steps: list[Step]) -> RunPlan:
    return msgspec.structs.replace(
        plan,
        faults=tuple(step for step in steps if not isinstance(step, Submission | Operation)),
        submissions=tuple(step for step in steps if isinstance(step, Submission)),
        operations=tuple(step for step in steps if isinstance(step, Operation)),
    )
