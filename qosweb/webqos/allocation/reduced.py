"""The general method for the few classes that need it: those that nothing but the capacity binds to others. Pure.

Most classes of a specification have at most bounds of their own. Where the general method is needed for others, all
that matters of these is the level they reach in the end: some stay at their lower bound above it, some are full below
it, and the others are even. Guess who is who; then the even ones are one class that counts several times, and the
program is as small as the part that is really coupled. The level it finds shows whether the guess was right, and is
the next guess if not.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.general import Relation, fill
from qosweb.webqos.allocation.groups import Exact, missed
from qosweb.webqos.allocation.water import surface

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.groups import Group

GUESSES_MAX = 8


def fill_reduced(
    capacity: int,
    demand: Sequence[int],
    levels: Sequence[int],
    floors: Sequence[Group],
    ceilings: Sequence[Group],
    relations: Sequence[Relation] = (),
    full: Sequence[tuple[int, ...]] = (),
    near: Fraction | None = None,
) -> Exact:
    """What ``general.fill`` gives for the same arguments; the first guess of the level is ``near``, if that is given."""
    coupled = _coupled(floors, ceilings, relations, full)
    free = [one for one, amount in enumerate(demand) if amount > 0 and one not in coupled]
    if len(free) > 1 and len({levels[one] for one, amount in enumerate(demand) if amount > 0}) == 1:
        low, high = _own_bounds(demand, floors, ceilings)
        guess = near if near is not None else _unbound_level(capacity, low, high)
        for _ in range(GUESSES_MAX):
            stand = _Stand(guess, free, low, high)
            left = capacity - sum(stand.amounts.values())
            if left < 0:
                break
            part = _Part(sorted(coupled), demand, stand.even, high)
            exact = part.fill(left, floors, ceilings, relations, full)
            if exact is None:
                break
            amounts, scale = exact
            guess = Fraction(amounts[-1], scale)
            if stand.agrees(guess):
                return part.whole(exact, stand, len(demand))
    return fill(capacity, demand, levels, floors, ceilings, relations, full)


def _unbound_level(capacity: int, low: Sequence[int], high: Sequence[int]) -> Fraction:
    level, missing, rising = surface(low, high, [0] * len(low), min(capacity, sum(high)))
    return Fraction(missing, rising or 1) + level


class _Stand:
    """Where the free classes stand if they reach this level: ``amounts`` of those held by a bound, and who is even."""

    def __init__(self, level: Fraction, free: Iterable[int], low: Sequence[int], high: Sequence[int]) -> None:
        self._low = low
        self._high = high
        above = [one for one in free if low[one] >= level]
        below = [one for one in free if high[one] <= level and low[one] < level]
        held = {*above, *below}
        self.even = [one for one in free if one not in held]
        if not self.even:  # somebody has to show the level
            self.even = [min(above, key=low.__getitem__) if above else max(below, key=high.__getitem__)]
        even = {*self.even}
        self._above = [one for one in above if one not in even]
        self._below = [one for one in below if one not in even]
        self.amounts = {one: low[one] for one in self._above} | {one: high[one] for one in self._below}

    def agrees(self, level: Fraction) -> bool:
        """Do the free classes stand there at this level?"""
        low, high = self._low, self._high
        if any(low[one] < level for one in self._above) or any(high[one] > level for one in self._below):
            return False
        if any(low[one] > level for one in self.even):
            return False
        if all(level < high[one] for one in self.even):
            return True
        # They are full and show no level: the least of them may have stopped the others, and it may be above anybody.
        return not self._above and len({high[one] for one in self.even}) == 1


class _Part:
    """The coupled classes, numbered anew, and after them one class for all that are even."""

    def __init__(self, coupled: list[int], demand: Sequence[int], even: list[int], high: Sequence[int]) -> None:
        self._coupled = coupled
        self._even = even
        self._new = {one: k for k, one in enumerate(coupled)}
        self._demand = [*(demand[one] for one in coupled), min(high[one] for one in even)]

    def fill(
        self,
        capacity: int,
        floors: Iterable[Group],
        ceilings: Iterable[Group],
        relations: Iterable[Relation],
        full: Iterable[tuple[int, ...]],
    ) -> Exact | None:
        """None if it may be for want of capacity that floors are not met: those of free classes would yield with them.

        As long as the even ones get anything, floors lack no capacity.
        """
        own_floors = [(self._renamed(group), ppm) for group, ppm in floors if group[0] in self._new]
        own_full = [self._renamed(group) for group in full]
        exact = fill(
            capacity,
            self._demand,
            [0] * len(self._demand),
            own_floors,
            [(self._renamed(group), ppm) for group, ppm in ceilings if group[0] in self._new],
            [Relation(self._renamed(r.left), self._renamed(r.right), r.weight_left, r.weight_right) for r in relations],
            own_full,
            [*(1 for _ in self._coupled), len(self._even)],
        )
        needs = [*own_floors, *((group, sum(self._demand[one] for one in group)) for group in own_full)]
        return None if not exact.amounts[-1] and missed(needs, exact, self._demand) else exact

    def whole(self, exact: Exact, stand: _Stand, classes: int) -> Exact:
        amounts, scale = exact
        shares = [0] * classes
        for one, k in self._new.items():
            shares[one] = amounts[k]
        for one in self._even:
            shares[one] = amounts[-1]
        for one, amount in stand.amounts.items():
            shares[one] = amount * scale
        return Exact(shares, scale)

    def _renamed(self, group: Iterable[int]) -> tuple[int, ...]:
        return tuple(self._new[one] for one in group)


def _coupled(
    floors: Iterable[Group],
    ceilings: Iterable[Group],
    relations: Iterable[Relation],
    full: Iterable[tuple[int, ...]],
) -> set[int]:
    found = {one for group, _ in (*floors, *ceilings) if len(group) > 1 for one in group}
    found.update(one for relation in relations for one in (*relation.left, *relation.right))
    found.update(one for group in full for one in group)
    return found


def _own_bounds(
    demand: Sequence[int], floors: Iterable[Group], ceilings: Iterable[Group]
) -> tuple[list[int], list[int]]:
    high = list(demand)
    for group, ppm in ceilings:
        if len(group) == 1:
            high[group[0]] = min(high[group[0]], ppm)
    low = [0] * len(demand)
    for group, ppm in floors:
        if len(group) == 1:
            low[group[0]] = min(high[group[0]], max(low[group[0]], ppm))
    return low, high
