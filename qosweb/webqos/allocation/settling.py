"""One level for all: the classes that are bound to each other, component by component, and beside them the free ones.

Nothing but the capacity binds one component to another, so what each holds only depends on the level of the water: a
straight line in it, piece by piece. What is left to find is the level at which all together hold the capacity. It is
where the pieces of the last time say; if that is beyond one of them, the next piece there takes its place. Pure, exact.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.component import Component
from qosweb.webqos.allocation.groups import picker
from qosweb.webqos.allocation.packing import Packing
from qosweb.webqos.allocation.shapes import FAR
from qosweb.webqos.allocation.waterline import Found, Waterline, next_level

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.general import Relation
    from qosweb.webqos.allocation.groups import Exact, Group
    from qosweb.webqos.allocation.shapes import Piece
    from qosweb.webqos.allocation.waterline import Bounds, Level

STEPS_MAX = 60  # in the search for the level
FEW_CHANGES = 8  # with more, lists are sorted anew


def components(
    offsets: Sequence[int],
    relations: Sequence[Relation],
    ceilings: Sequence[Group],
    floors: Sequence[Group],
    full: frozenset[int],
    known: dict[object, Component | Packing],
) -> list[Component | Packing]:
    """What is bound to each other, apart from what is not; those that are ``known`` remember their shapes."""
    sets = [
        *((*r.left, *r.right) for r in relations),
        *(group for group, _ in (*ceilings, *floors)),
        *((one,) for one in sorted(full)),
    ]
    found: list[Component | Packing] = []
    for together in _connected(sets):
        own_relations = [r for r in relations if together.intersection((*r.left, *r.right))]
        own_ceilings = [(group, ppm) for group, ppm in ceilings if group[0] in together]
        own_floors = [(group, ppm) for group, ppm in floors if group[0] in together]
        own_full = full & together
        key = tuple(own_relations), tuple(own_ceilings), tuple(own_floors), own_full
        component = known.get(key)
        if component is None:
            component = Component(offsets, own_relations, own_ceilings, own_floors, own_full)
            if not own_relations and not own_floors and not own_full:
                component = Packing(offsets, own_ceilings, component)
            known[key] = component
        found.append(component)
    return found


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
        self._pieces: list[Piece | None] = [None] * len(bound)
        # Of all pieces together: their sum, and where all are good.
        self._scale = 1
        self._base = self._slope = 0
        self._lines: list[tuple[int, int, int]] = []  # class, base and slope
        self._least: Level = (0, 1)
        self._most: Level = (FAR, 1)

    def settle(self, demand: Sequence[int], bounds: Bounds, top: int, near: int) -> Found | None:
        """The shares, and the level; None if they are beyond this method, or if floors have to yield."""
        if self._near < 0:
            self._near = near
        if not self._take(demand, bounds):
            return None
        level, parts = self._near, 1
        below, above = (-1, 1), (top + 1, 1)
        for _ in range(STEPS_MAX):
            level, parts, missing = self._search(bounds.capacity, level, parts, below, above, top)
            least, most = self._least, self._most
            if level * least[1] < least[0] * parts or level * most[1] > most[0] * parts:
                if not self._move(level, parts):
                    return None
                missing = (bounds.capacity * parts - self._line.held(level, parts)[0]) * self._scale
                missing -= self._base * parts + self._slope * level
            if not missing or (missing > 0 and level >= top * parts):
                self._near = level // parts
                return self._found(bounds, level, parts)
            if missing > 0:
                below = level, parts
            elif level <= 0:
                return None
            else:
                above = level, parts
        return None

    def learn(self, demand: Sequence[int], bounds: Bounds, exact: Exact) -> Fraction | None:
        """Remember how all stand in shares that are max-min, if some free class shows the level, and say where it is."""
        amounts, parts = exact
        rising = (one for one in self._free if bounds.low[one] * parts < amounts[one] < bounds.high[one] * parts)
        shows = next(rising, None)
        if shows is None:
            return None
        level = amounts[shows] + self._offsets[shows] * parts
        for component in self._components:
            component.take(demand, bounds)
            component.learn(level, parts, [amounts[one] for one in component.classes])
        return Fraction(level, parts)

    def _take(self, demand: Sequence[int], bounds: Bounds) -> bool:
        """The demands are now these. False if there is no telling how components stand."""
        before, self._before = self._before, bounds
        if before is bounds:
            return None not in self._pieces or self._guess(demand, bounds, range(len(self._components)))
        if before is not None and before.serial == bounds.serial - 1:
            changed = bounds.changed
        elif before is not None:
            changed = [one for one, (a, b) in enumerate(zip(before.demand, bounds.demand, strict=True)) if a != b]
        else:
            changed = range(len(self._of))
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
            self._line.moved(self._own(low), self._own(high))
        if None in self._pieces:
            return self._guess(demand, bounds, range(len(self._components)))
        return not touched or self._guess(demand, bounds, touched)

    def _guess(self, demand: Sequence[int], bounds: Bounds, touched: Iterable[int]) -> bool:
        """How these components stand, if nothing has changed but the demands."""
        for n in touched:
            component = self._components[n]
            component.take(demand, bounds)
            self._pieces[n] = component.guess(self._near)
        return self._add_up()

    def _move(self, level: int, parts: int) -> bool:
        """How all components stand at this level."""
        for n, piece in enumerate(self._pieces):
            if piece is not None and not piece.covers(level, parts):
                self._components[n].take(self._before.demand, self._before)
                self._pieces[n] = self._components[n].piece(level, parts)
        return self._add_up()

    def _add_up(self) -> bool:
        scale = 1
        for piece in self._pieces:
            if piece is None:
                return False
            if scale % piece.scale:
                scale = lcm(scale, piece.scale)
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
        return True

    def _search(
        self, capacity: int, level: int, parts: int, below: Level, above: Level, top: int
    ) -> tuple[int, int, int]:
        """The level between two at which all hold the capacity if the pieces are good there, and what is missing."""
        scale, base, slope = self._scale, self._base, self._slope
        held_at = self._line.held
        missing = 0
        for _ in range(STEPS_MAX):
            held, rising = held_at(level, parts)
            missing = (capacity * parts - held) * scale - base * parts - slope * level
            if not missing:
                break
            if missing > 0:
                if level >= top * parts:
                    break
                below = level, parts
            elif level <= 0:
                break
            else:
                above = level, parts
            pace = rising * scale + slope
            jump = -1
            if not pace:  # to where somebody rises
                jump = self._line.next_start(level // parts, top) if missing > 0 else self._line.last_stop(level // parts)
            if below[0] < jump * below[1] and jump * above[1] < above[0]:
                level, parts = jump, 1
            else:
                level, parts = next_level(level, parts, missing, pace, below, above)
            if level < 0:
                level = 0
            elif level > top * parts:
                level, parts = top, 1
        return level, parts, missing

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
