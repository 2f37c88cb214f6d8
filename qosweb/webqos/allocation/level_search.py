"""One level for all: the classes that are bound to each other, component by component, and beside them the free ones.

Nothing but the capacity binds one component to another, so what each holds only depends on the level of the water: a
straight line in it, piece by piece. What is left to find is the level at which all together hold the capacity. It is
where the pieces of the last time say; if that is beyond one of them, the next piece there takes its place. Pure, exact.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.active_sets import FAR, Piece
from qosweb.webqos.allocation.component import Component, Rules
from qosweb.webqos.allocation.groups import picker
from qosweb.webqos.allocation.packing import Packing
from qosweb.webqos.allocation.waterline import Found, Waterline, next_level

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.waterline import Bounds, Level

STEPS_MAX = 60  # in the search for the level
FEW_CHANGES = 8  # with more, lists are sorted anew


def components(
    offsets: Sequence[int], rules: Rules, known: dict[object, Component | Packing]
) -> list[Component | Packing]:
    """What is bound to each other, apart from what is not; those that are ``known`` remember their shapes."""
    relations, ceilings, floors, full = rules.relations, rules.ceilings, rules.floors, rules.full
    sets = [
        *((*r.left, *r.right) for r in relations),
        *(group for group, _ in (*ceilings, *floors) if len(group) > 1),
        *full,
    ]
    found: list[Component | Packing] = []
    for together in _connected(sets):
        own = Rules(
            [r for r in relations if together.intersection((*r.left, *r.right))],
            [(group, ppm) for group, ppm in ceilings if group[0] in together],
            [(group, ppm) for group, ppm in floors if group[0] in together],
            [group for group in full if together.intersection(group)],
        )
        key = tuple(own.relations), tuple(own.ceilings), tuple(own.floors), tuple(own.full)
        component = known.get(key)
        if component is None:
            component = Component(offsets, own)
            if not own.relations and not own.full and all(len(group) == 1 for group, _ in own.floors):
                component = Packing(offsets, [(group, ppm) for group, ppm in own.ceilings if len(group) > 1], component)
            known[key] = component
        found.append(component)
    return found


NOTHING = Piece((0, 1), (0, 1), (), (), 1, 0, 0)


class Scene:
    """Some components, and all other classes: bound by their own bounds alone. ``watched`` are those of interest."""

    def __init__(self, offsets: Sequence[int], bound: Sequence[Component | Packing], watched: Iterable[int]) -> None:
        self._components = bound
        self._offsets = offsets
        self._of = [-1] * len(offsets)  # for each class, the number of its component
        for n, component in enumerate(bound):
            for one in component.classes:
                self._of[one] = n
        self._free = [one for one, n in enumerate(self._of) if n < 0]
        self._coupled = [one for one, n in enumerate(self._of) if n >= 0]
        self._watched = [one for one in watched if self._of[one] < 0]
        self._own = picker(self._free)
        self._line = Waterline((), (), ())
        self._before: Bounds | None = None
        self._near = -1
        self._pieces: list[Piece] = [NOTHING] * len(bound)
        # Of all pieces together: their sum, and where all are good.
        self._scale = 1
        self._base = self._slope = 0
        self._lines: list[tuple[int, int, int]] = []  # class, base and slope
        self._least: Level = (0, 1)
        self._most: Level = (FAR, 1)

    def settle(self, bounds: Bounds, top: int, near: int) -> Found | None:
        """The shares, and the level; None if there is less than what floors ask for: then they have to yield.

        The search begins where the last one ended, or ``near``. The first look is only for a guess: there, the pieces
        of the last time may not be good any more.
        """
        if self._near < 0:
            self._near = near
        self._take(bounds)
        capacity = bounds.capacity
        level, parts = self._near, 1
        below, above = (-1, 1), (top + 1, 1)
        for step in range(STEPS_MAX):
            good = self._is_good(level, parts)
            if not good and step:
                self._move(bounds, level, parts)
                good = True
            held, rising = self._line.held(level, parts)
            missing = (capacity * parts - held) * self._scale - self._base * parts - self._slope * level
            if good:
                if not missing or (missing > 0 and level >= top * parts):
                    self._near = level // parts
                    return self._found(bounds, level, parts)
                if missing > 0:
                    below = level, parts
                elif level <= 0:
                    return None
                else:
                    above = level, parts
            pace = rising * self._scale + self._slope
            jump = self._jump(level, parts, top, up=missing > 0) if not pace else -1
            if below[0] < jump * below[1] and jump * above[1] < above[0]:
                level, parts = jump, 1
            else:
                level, parts = next_level(level, parts, missing, pace, below, above)
            if level < 0:
                level = 0
            elif level > top * parts:
                level, parts = top, 1
        return None

    def _is_good(self, level: int, parts: int) -> bool:
        least, most = self._least, self._most
        return least[0] * parts <= level * least[1] and level * most[1] <= most[0] * parts

    def _jump(self, level: int, parts: int, top: int, *, up: bool) -> int:
        """Where nobody rises: the next level at which that may be different."""
        if up:
            return min(self._line.next_start(level // parts, top), self._most[0] // self._most[1] + 1)
        return max(self._line.last_stop(level // parts), -(-self._least[0] // self._least[1]) - 1)

    def _take(self, bounds: Bounds) -> None:
        """The demands are now these."""
        before, self._before = self._before, bounds
        if before is bounds:
            return
        if before is None:
            changed: Sequence[int] = range(len(self._of))
        elif before.serial == bounds.serial - 1:
            changed = bounds.changed
        else:
            changed = [one for one, (a, b) in enumerate(zip(before.demand, bounds.demand, strict=True)) if a != b]
        low, high = bounds.low, bounds.high
        touched: set[int] = set()
        moved: list[int] = []
        for one in changed:
            if self._of[one] >= 0:
                touched.add(self._of[one])
            else:
                moved.append(one)
        if before is None or len(moved) > FEW_CHANGES:
            self._line = Waterline(self._own(low), self._own(high), self._own(self._offsets))
        elif moved:
            for one in moved:
                offset = self._offsets[one]
                self._line.move(
                    before.low[one] + offset, before.high[one] + offset, low[one] + offset, high[one] + offset
                )
        for n in touched:
            component = self._components[n]
            component.take(bounds)
            self._pieces[n] = component.guess(self._near)
        if touched:
            self._add_up()

    def _move(self, bounds: Bounds, level: int, parts: int) -> None:
        """How all components stand at this level."""
        for n, piece in enumerate(self._pieces):
            if not piece.covers(level, parts):
                component = self._components[n]
                component.take(bounds)
                self._pieces[n] = component.piece(level, parts)
        self._add_up()

    def _add_up(self) -> None:
        scale = lcm(*[piece.scale for piece in self._pieces])
        base = slope = 0
        least, of_least = 0, 1
        most, of_most = FAR, 1
        lines: list[tuple[int, int, int]] = []
        for component, piece in zip(self._components, self._pieces, strict=True):
            from_here, to_here, bases, slopes, own_scale, sum_base, sum_slope = piece
            finer = scale // own_scale
            if finer != 1:
                bases, slopes = [finer * part for part in bases], [finer * part for part in slopes]
            lines += zip(component.classes, bases, slopes, strict=True)
            base += sum_base * finer
            slope += sum_slope * finer
            if from_here[0] * of_least > least * from_here[1]:
                least, of_least = from_here
            if to_here[0] * of_most < most * to_here[1]:
                most, of_most = to_here
        self._scale, self._base, self._slope = scale, base, slope
        self._least, self._most = (least, of_least), (most, of_most)
        self._lines = lines

    def _found(self, bounds: Bounds, level: int, parts: int) -> Found:
        scale = self._scale
        amounts = [0] * len(self._of)
        for one, base, slope in self._lines:
            amounts[one] = base * parts + slope * level
        whole = level // parts
        level *= scale
        parts *= scale
        low, high, offsets = bounds.low, bounds.high, self._offsets
        for one in self._watched:
            here = whole - offsets[one]
            if here < low[one]:
                amounts[one] = low[one] * parts
            elif here >= high[one]:
                amounts[one] = high[one] * parts
            else:
                amounts[one] = level - offsets[one] * parts
        return Found(level, parts, amounts, self._coupled, self._free)


def _connected(sets: Iterable[tuple[int, ...]]) -> list[frozenset[int]]:
    """The unions of sets that have something in common."""
    found: list[frozenset[int]] = []
    for one in sets:
        together = frozenset(one)
        apart = []
        for other in found:
            if together.isdisjoint(other):
                apart.append(other)
            else:
                together |= other
        found = [*apart, together] if together else found
    return sorted(found, key=min)
