"""Rounds exact shares to integer parts per million where groups overlap. Pure.

Every share is rounded down. The remaining parts are given back one by one: first to classes of a floor that rounding
left short, then to classes that were rounded, each time those with the largest remainder first and then the lower
number. Last, classes that may take more receive what is still missing to the exact total, in the order of priority. No
ceiling is ever exceeded. A floor over overlapping groups may stay short by fewer parts than it has classes, where no
integers fit better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from qosweb.webqos.allocation.groups import Exact, Group


NOBODY: frozenset[int] = frozenset()


class Rounding:
    """The groups of a problem, and the order in which its classes are served."""

    def __init__(self, levels: Sequence[int], floors: Sequence[Group], ceilings: Sequence[Group]) -> None:
        # A class that was rounded down can have one more without passing a bound of its own.
        self._by_priority = sorted(range(len(levels)), key=levels.__getitem__)
        self._floors = [group for group, _ in floors if len(group) > 1]
        self._ceilings = [(group, ppm) for group, ppm in ceilings if len(group) > 1]
        self._own = {group[0]: ppm for group, ppm in ceilings if len(group) == 1}
        self._under = _by_class(len(levels), self._floors)
        self._over = _by_class(len(levels), [group for group, _ in self._ceilings])

    def whole(self, exact: Exact, demand: Sequence[int]) -> list[int]:
        """Integer shares next to ``exact``; their sum is that of ``exact``, rounded up, if the ceilings allow it."""
        amounts, scale = exact
        shares = [amount // scale for amount in amounts]
        # (minus what was rounded down in parts of the scale, class)
        rounded = [(-(amount % scale), one) for one, amount in enumerate(amounts) if amount % scale]
        left = -(sum([remainder for remainder, _ in rounded]) // scale)
        if not left:
            return shares
        rounded.sort()
        over, ceilings = self._over, self._ceilings
        room: dict[int, int] = {}

        def give(one: int, most: int) -> int:
            for bound in over[one]:
                if bound not in room:
                    group, ppm = ceilings[bound]
                    room[bound] = ppm - sum([shares[other] for other in group])
                if room[bound] < most:
                    most = room[bound]
            if most > 0:
                shares[one] += most
                for bound in over[one]:
                    room[bound] -= most
            return max(most, 0)

        more = self._lift_floors(rounded, scale, left, give) if self._floors else NOBODY
        left -= len(more)
        for _, one in rounded:
            if not left:
                return shares
            if one in more:
                continue
            if over[one]:
                left -= give(one, 1)
            else:
                shares[one] += 1
                left -= 1
        for one in self._by_priority if left else ():
            left -= give(one, min(left, demand[one] - shares[one], self._own.get(one, demand[one]) - shares[one]))
        return shares

    def _lift_floors(
        self, rounded: list[tuple[int, int]], scale: int, left: int, give: Callable[[int, int], int]
    ) -> Collection[int]:
        """Adds one part to classes of floors that rounding left short.

        The exact sum of a binding floor is an integer: what is missing was lost by rounding down.
        """
        lost = {one: -remainder for remainder, one in rounded if self._under[one]}
        missing = [sum([lost.get(one, 0) for one in group]) // scale for group in self._floors]
        more: set[int] = set()
        if any(missing):
            for one in lost:
                if len(more) < left and any(missing[bound] > 0 for bound in self._under[one]) and give(one, 1):
                    more.add(one)
                    for bound in self._under[one]:
                        missing[bound] -= 1
        return more


def _by_class(classes: int, groups: Sequence[tuple[int, ...]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(classes)]
    for bound, group in enumerate(groups):
        for one in group:
            found[one].append(bound)
    return found
