"""Divides the capacity between classes: always available classes first, then all others from the remainder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.problem import PPM, Problem
from qosweb.webqos.allocation.shares import Allocator
from qosweb.webqos.policy.binding import Binding, problem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.model.model import Model
    from qosweb.webqos.policy.coverage import Coverage
    from qosweb.webqos.policy.environment import ShareBasis

ALLOCATORS_MAX = 64


class Division:
    """Computes shares under one binding for changing demand. Results that do not depend on demand are cached."""

    def __init__(self, model: Model, coverage: Coverage, binding: Binding, basis: ShareBasis) -> None:
        self._model = model
        self._coverage = coverage
        self._binding = binding
        self._means = basis
        self._always = frozenset(binding.always)
        self._first = Allocator(Problem(len(model.classes), (), ()))
        self._others: dict[int | None, Allocator] = {}

    def shares(self, demand_ppm: Sequence[int]) -> tuple[int, ...]:
        """The share of each class for the given demand, both in parts per million of the whole capacity."""
        always = self._always
        if not always:
            return self._allocator(PPM).shares(demand_ppm)
        first = self._first.shares([ask if at in always else 0 for at, ask in enumerate(demand_ppm)])
        left = PPM - sum(first)
        if left <= 0:
            return first
        asks = [0 if at in always else min(PPM, -(-ask * PPM // left)) for at, ask in enumerate(demand_ppm)]
        rest = self._allocator(left).shares(asks)
        return tuple(
            got if at in always else share * left // PPM
            for at, (got, share) in enumerate(zip(first, rest, strict=True))
        )

    def _allocator(self, left: int) -> Allocator:
        """The allocator for the remaining capacity. Rates are absolute, so their share of the remainder differs."""
        basis = self._means
        key = left if basis.capacity_bps is not None else None
        if key not in self._others:
            if len(self._others) >= ALLOCATORS_MAX:
                self._others.clear()
            if basis.capacity_bps is not None:
                basis = replace(basis, capacity_bps=max(1, basis.capacity_bps * left // PPM))
            self._others[key] = Allocator(problem_of(self._model, self._coverage, self._binding, basis))
        return self._others[key]


def divide(
    model: Model, coverage: Coverage, binding: Binding, basis: ShareBasis, demand_ppm: Sequence[int]
) -> tuple[int, ...]:
    """The shares for one demand; use ``Division`` for several."""
    return Division(model, coverage, binding, basis).shares(demand_ppm)
