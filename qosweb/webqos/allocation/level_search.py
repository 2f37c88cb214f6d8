"""Max-min shares when few rules bind: a linear program over the classes that they name, one column for the rest. Pure.

The result is exact. A class that no binding rule names is *free*: at water level t it has t, within its own two bounds.
A class that only ceilings bind is free, too: where it stops follows from demands and ceilings alone (``packing``),
whatever the level. The sum over all free classes is a function F(t) that is linear between *marks*, the levels at which
a free class starts or stops to rise. Between two marks, the R classes that rise there act like one class that counts R
times against the capacity. So the linear program needs columns for the other classes and one more for all free ones,
whatever their number. Its solution also gives the level at which the capacity is exhausted. If that level is not
between the two marks, the true level is on that side of them: F and the linear function that replaces it agree at the
marks, and the need of the other classes never falls as the level rises.

Priority is height: the classes of each next level of priority stand one whole capacity higher.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

from qosweb.webqos.allocation.general import Relation, fill
from qosweb.webqos.allocation.groups import Exact
from qosweb.webqos.allocation.packing import fill_under
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.allocation.water import surface

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.general import Filled
    from qosweb.webqos.allocation.groups import Group

GUESSES_MAX = 6  # after these, the search bisects


class Rules(NamedTuple):
    """The rules that may bind, and all bounds of single classes."""

    floors: Sequence[Group]
    ceilings: Sequence[Group]
    relations: Sequence[Relation]
    full: Sequence[tuple[int, ...]]

    def bound(self) -> set[int]:
        """The classes that floors of groups, relations and ``full`` name, and those that share a ceiling with them."""
        found = {
            *(one for group, _ in self.floors if len(group) > 1 for one in group),
            *(one for relation in self.relations for one in (*relation.left, *relation.right)),
            *(one for group in self.full for one in group),
        }
        before = -1
        while len(found) > before:
            before = len(found)
            for group, _ in self.ceilings:
                if len(group) > 1 and not found.isdisjoint(group):
                    found.update(group)
        return found

    def over(self, bound: set[int], scale: int) -> Rules:
        """The rules for these classes, in parts of ``scale``."""
        floors, ceilings = (
            [(group, ppm * scale) for group, ppm in bounds if group[0] in bound]
            for bounds in (self.floors, self.ceilings)
        )
        return Rules(floors, ceilings, self.relations, self.full)


def fill_beside(
    capacity: int, demand: Sequence[int], levels: Sequence[int], low: Sequence[int], high: Sequence[int], rules: Rules
) -> Exact | None:
    """The exact shares; None if the capacity is less than the sum of the floors.

    ``low`` and ``high`` are the own bounds of all classes; the sum of ``low`` is at most the capacity.
    """
    bound = rules.bound()
    apart = [(group, ppm) for group, ppm in rules.ceilings if len(group) > 1 and group[0] not in bound]
    stops = fill_under(apart, low, high, [level * PPM for level in levels])
    if stops is None:  # floors yield to ceilings
        bound.update(one for group, _ in apart for one in group)
        stops = Exact(high, 1)
    scale = stops.scale
    asked = [amount * scale if one in bound else 0 for one, amount in enumerate(demand)]
    free = [one for one in range(len(demand)) if one not in bound]
    search = _LevelSearch(
        capacity, asked, levels, free, [least * scale for least in low], stops.amounts, rules.over(bound, scale), scale
    )
    found = search.shares()
    return Exact(found.amounts, found.scale * scale) if found is not None else None


class _LevelSearch:
    """Searches the level at which the capacity is exhausted; ``demand`` is that of the classes that are not free.

    All amounts but the capacity are in parts of a scale.
    """

    def __init__(
        self,
        capacity: int,
        demand: Sequence[int],
        levels: Sequence[int],
        free: Sequence[int],
        low: Sequence[int],
        high: Sequence[int],
        rules: Rules,
        scale: int,
    ) -> None:
        self._capacity = capacity * scale
        self._priority = PPM * scale  # the height of a level of priority
        self._demand = demand
        self._levels = levels
        self._offsets = [level * self._priority for level in levels]
        self._free = free
        self._low = low
        self._high = high
        self._rules = rules
        # For each mark: the sum of the free classes there, and how many of them rise from there on.
        self._marks: list[int] = []
        self._held: list[int] = []
        self._rising: list[int] = []
        self._set_marks()

    def _set_marks(self) -> None:
        changes: dict[int, int] = {0: 0}
        held = 0
        for one in self._free:
            least, most, offset = self._low[one], self._high[one], self._offsets[one]
            held += least
            if least < most:
                changes[least + offset] = changes.get(least + offset, 0) + 1
                changes[most + offset] = changes.get(most + offset, 0) - 1
        before = rising = 0
        for mark in sorted(changes):
            held += (mark - before) * rising
            rising += changes[mark]
            before = mark
            self._marks.append(mark)
            self._held.append(held)
            self._rising.append(rising)

    def shares(self) -> Exact | None:
        first, last = 0, len(self._marks) - 1
        at = bisect_right(self._marks, self._guess()) - 1
        below: tuple[int, Filled] | None = None
        guesses = 0
        while first <= last:
            filled = self._fill(at)
            level = self._level(filled) if filled is not None else None
            if filled is None or (level is not None and level < self._marks[at]):
                last = at - 1
            elif at < len(self._marks) - 1 and (level is None or level > self._marks[at + 1]):
                first, below = at + 1, (at, filled)
            else:
                return self._all(at, filled)
            guesses += 1
            at = (first + last) // 2
            if level is not None and guesses <= GUESSES_MAX:
                at = min(max(bisect_right(self._marks, level) - 1, first), last)
        # Exactly at the next mark the capacity is exhausted, but none of its classes is stopped by that.
        return self._all(*below) if below is not None else None

    def _guess(self) -> int:
        """The level if only the classes' own bounds applied."""
        level, missing, rising = surface(self._low, self._high, self._offsets, self._capacity)
        return level + missing // rising if rising else level

    def _fill(self, at: int) -> Filled | None:
        """The shares of bound classes if the level is at this mark or between it and the next.

        The last class stands for all free ones. None if the capacity does not suffice for the floors at that level.
        """
        priority, height = divmod(self._marks[at], self._priority)
        rising = self._rising[at]
        room = self._capacity - self._held[at] + rising * height
        if room < 0:
            return None
        most = room + 1 if rising else 0  # it is stopped by the capacity alone
        filled = fill(room, [*self._demand, most], [*self._levels, priority], *self._rules, many=rising)
        return None if filled.is_short else filled

    def _level(self, filled: Filled) -> Fraction | None:
        """The level at which the capacity is exhausted; None if it is not."""
        return None if filled.level is None else self._priority * filled.level[0] + filled.level[1]

    def _all(self, at: int, filled: Filled) -> Exact:
        """The shares of all classes."""
        amounts, scale = filled.exact
        level = self._level(filled) if self._rising[at] else Fraction(self._marks[at])
        assert level is not None, "only the capacity stops those that rise"
        parts = lcm(scale, level.denominator)
        shares = [amount * (parts // scale) for amount in amounts[:-1]]
        here = level.numerator * (parts // level.denominator)
        for one in self._free:
            height = here - self._offsets[one] * parts
            shares[one] = min(max(height, self._low[one] * parts), self._high[one] * parts)
        return Exact(shares, parts)
