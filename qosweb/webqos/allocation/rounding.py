"""From exact shares to whole parts per million where groups overlap. Pure.

Every share is rounded down. The parts that this leaves are given back one by one: first to classes of a floor that the
rounding left short, then to classes that were rounded, each time those with the largest remainder first and then the
lower number; and last, whoever may take more takes what is still missing to the exact sum of all, in the order of
priority. No ceiling is ever exceeded. A floor over overlapping groups may stay short by fewer parts than it has
classes, where no whole numbers fit better.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from qosweb.webqos.allocation.groups import Group


def to_whole(
    exact: Sequence[Fraction],
    demand: Sequence[int],
    levels: Sequence[int],
    floors: Sequence[Group],
    ceilings: Sequence[Group],
) -> list[int]:
    """Whole shares beside ``exact``, whose sum is that of ``exact``, rounded up, if the ceilings allow it."""
    ceilings = [(tuple(range(len(exact))), ceil(sum(exact))), *ceilings]
    shares = [int(share) for share in exact]
    order = sorted(range(len(exact)), key=lambda one: (shares[one] - exact[one], one))
    over = _by_class(len(exact), ceilings)
    room = [ppm - sum(shares[one] for one in group) for group, ppm in ceilings]

    def give(one: int, most: int) -> int:
        amount = min(most, demand[one] - shares[one], *(room[bound] for bound in over[one]))
        if amount > 0:
            shares[one] += amount
            for bound in over[one]:
                room[bound] -= amount
        return max(amount, 0)

    # The exact sums of floors are whole whenever a floor binds: what is missing to them was lost by rounding down.
    missing = [int(sum(exact[one] for one in group)) - sum(shares[one] for one in group) for group, _ in floors]
    under = _by_class(len(exact), floors)
    for one in order:
        if any(missing[bound] > 0 for bound in under[one]) and give(one, 1):
            for bound in under[one]:
                missing[bound] -= 1
    for one in order:
        if shares[one] < exact[one]:
            give(one, 1)
    for one in sorted(order, key=levels.__getitem__):
        give(one, demand[one])
    return shares


def _by_class(classes: int, groups: Sequence[Group]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(classes)]
    for bound, (group, _) in enumerate(groups):
        for one in group:
            found[one].append(bound)
    return found
