"""From exact shares to whole parts per million where groups overlap. Pure.

Every share is rounded down. The parts that this leaves are given back one by one: first to classes of a floor that the
rounding left short, then to classes that were rounded, each time those with the largest remainder first and then the
lower number; and last, whoever may take more takes what is still missing to the exact sum of all, in the order of
priority. No ceiling is ever exceeded. A floor over overlapping groups may stay short by fewer parts than it has
classes, where no whole numbers fit better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.groups import Exact, Group


def to_whole(
    exact: Exact,
    demand: Sequence[int],
    levels: Sequence[int],
    floors: Sequence[Group],
    ceilings: Sequence[Group],
) -> list[int]:
    """Whole shares beside ``exact``, whose sum is that of ``exact``, rounded up, if the ceilings allow it."""
    amounts, scale = exact
    shares = [amount // scale for amount in amounts]
    left = -(-sum(amounts) // scale) - sum(shares)
    if not left:
        return shares
    over = _by_class(len(shares), ceilings)
    room = [ppm - sum([shares[one] for one in group]) for group, ppm in ceilings]

    def give(one: int, most: int) -> int:
        amount = min([most, left, demand[one] - shares[one], *[room[bound] for bound in over[one]]])
        if amount <= 0:
            return 0
        shares[one] += amount
        for bound in over[one]:
            room[bound] -= amount
        return amount

    rounded = [one for one, amount in enumerate(amounts) if amount % scale]
    rounded.sort(key=lambda one: -(amounts[one] % scale))
    # The exact sum of a floor is whole whenever the floor binds: what is missing to that was lost by rounding down.
    missing = [
        sum([amounts[one] for one in group]) // scale - sum([shares[one] for one in group]) for group, _ in floors
    ]
    under = _by_class(len(shares), floors)
    for one in rounded:
        if any(missing[bound] > 0 for bound in under[one]) and give(one, 1):
            left -= 1
            for bound in under[one]:
                missing[bound] -= 1
    for one in rounded:
        if shares[one] * scale < amounts[one]:
            left -= give(one, 1)
    for one in sorted(range(len(shares)), key=levels.__getitem__):
        left -= give(one, left)
    return shares


def _by_class(classes: int, groups: Sequence[Group]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(classes)]
    for bound, (group, _) in enumerate(groups):
        for one in group:
            found[one].append(bound)
    return found
