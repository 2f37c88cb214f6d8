"""What every class gets: first those that are always available, then all others of what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.problem import PPM, Problem
from qosweb.webqos.allocation.shares import allocate
from qosweb.webqos.policy.binding import Binding, problem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.model.model import Model
    from qosweb.webqos.policy.coverage import Coverage
    from qosweb.webqos.policy.environment import Means


def divide(
    model: Model, coverage: Coverage, binding: Binding, means: Means, demand_ppm: Sequence[int]
) -> tuple[int, ...]:
    """The share of each class in parts per million of the whole capacity, for what each asks for."""
    always = set(binding.always)
    first = allocate(
        Problem(len(model.classes), (), ()),
        [ask if at in always else 0 for at, ask in enumerate(demand_ppm)],
    )
    left = PPM - sum(first)
    if left <= 0:
        return first
    if means.capacity_bps is not None:
        means = replace(means, capacity_bps=max(1, means.capacity_bps * left // PPM))
    problem = problem_of(model, coverage, binding, means)
    asks = [0 if at in always else min(PPM, -(-ask * PPM // left)) for at, ask in enumerate(demand_ppm)]
    rest = allocate(problem, asks)
    return tuple(
        got if at in always else share * left // PPM for at, (got, share) in enumerate(zip(first, rest, strict=True))
    )
