"""Weights of the classes that are active at this node now: while they send, or wait for the processor.

The weights are the shares that these classes would have if exactly they demanded everything. The demand in the
replicated state does not count here: it follows what a class got, and a class that got too little, because its few
connections could not ask for more, would then keep too little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.engine.replicated.bound_policy import BoundPolicy

KEPT_MAX = 1024


class ActiveWeights:
    """Computes weights for the policy in force, and remembers them for each set of classes."""

    def __init__(self) -> None:
        self._bound: BoundPolicy | None = None
        self._found: dict[tuple[int, ...], list[int | None]] = {}

    def of(self, numbers: tuple[int, ...], bound: BoundPolicy) -> list[int | None]:
        """The weights of these classes in parts per million, in their order; None: always available.

        0: the class gets what no other class can use, or belongs to an earlier policy.
        """
        if bound is not self._bound or len(self._found) >= KEPT_MAX:
            self._bound = bound
            self._found.clear()
        weights = self._found.get(numbers)
        if weights is None:
            weights = self._found[numbers] = _weights(numbers, bound)
        return weights


def _weights(numbers: tuple[int, ...], bound: BoundPolicy) -> list[int | None]:
    always = bound.always
    demand_ppm = [0] * len(always)
    for number in numbers:
        if number < len(always) and not always[number]:
            demand_ppm[number] = PPM
    shares = bound.shares(demand_ppm)
    return [0 if number >= len(always) else None if always[number] else shares[number] for number in numbers]
