"""One level for all: the classes that are bound to each other, component by component, and beside them the free ones.

Nothing but the capacity binds one component to another, so what each holds only depends on the level of the water: a
straight line in it, piece by piece. What is left to find is the level at which all together hold the capacity. It is
where the pieces of the last time say; if that is beyond one of them, the next piece there takes its place. Pure, exact.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.component import Component
from qosweb.webqos.allocation.groups import picker
from qosweb.webqos.allocation.packing import Packing
from qosweb.webqos.allocation.rising import Rising
from qosweb.webqos.allocation.waterline import Found, Waterline, next_level

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.general import Relation
    from qosweb.webqos.allocation.groups import Group
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
    known: dict[object, Component],
) -> list[Component]:
    """What is bound to each other, apart from what is not; those that are ``known`` remember their shapes."""
    sets = [
        *((*r.left, *r.right) for r in relations),
        *(group for group, _ in (*ceilings, *floors)),
        *((one,) for one in sorted(full)),
    ]
    found: list[Component] = []
    for together in _connected(sets):
        own_relations = [r for r in relations if together.intersection((*r.left, *r.right))]
        own_ceilings = [(group, ppm) for group, ppm in ceilings if group[0] in together]
        own_floors = [(group, ppm) for group, ppm in floors if group[0] in together]
        own_full = full & together
        key = tuple(own_relations), tuple(own_ceilings), tuple(own_floors), own_full
        component = known.get(key)
        if component is None:
            solver: Rising | Packing | None
            if own_relations or own_floors or own_full:
                solver = Rising(offsets, own_relations, own_ceilings, own_floors, own_full)
                solver = solver if solver.possible else None
            else:
                solver = Packing(offsets, own_ceilings)
            component = Component(offsets, own_relations, own_ceilings, own_floors, own_full, solver)
            known[key] = component
        found.append(component)
    return found


class Scene:
    """Some components, and all other classes: bound by their own bounds alone."""

    def __init__(self, offsets: Sequence[int], bound: Sequence[Component]) -> None:
        self.components = bound
        coupled = {one for component in bound for one in component.classes}
        self.free = [one for one in range(len(offsets)) if one not in coupled]
        self._offsets = offsets
        self._own = picker(self.free)
        self._is_free = [one not in coupled for one in range(len(offsets))]
        self._line = Waterline((), (), ())
        self._serial = -1
        self._before: Bounds | None = None
        self._near = -1

    def settle(self, demand: Sequence[int], bounds: Bounds, top: int, near: int) -> Found | None:
        """The shares of all components, and the level; None if they are beyond this method, or floors have to yield."""
        self._take(bounds)
        if self._near < 0:
            self._near = near
        pieces: list[Piece] = []
        for component in self.components:
            component.take(demand, bounds)
            piece = component.guess(self._near)
            if piece is None:
                return None
            pieces.append(piece)
        below, above = (-1, 1), (top + 1, 1)
        level, parts = self._near, 1
        for _ in range(STEPS_MAX):
            level, parts, missing = self._search(pieces, bounds.capacity, level, parts, below, above, top)
            good = True
            for n, (component, piece) in enumerate(zip(self.components, pieces, strict=True)):
                if not piece.covers(level, parts):
                    other = component.piece(level, parts)
                    if other is None:
                        return None
                    pieces[n] = other
                    good = False
            if not good:
                missing = self._missing(pieces, bounds.capacity, level, parts)[0]
            if not missing or (missing > 0 and level >= top * parts):
                self._near = level // parts
                return self._found(pieces, level, parts)
            if missing > 0:
                below = level, parts
            elif level <= 0:
                return None
            else:
                above = level, parts
        return None

    def _take(self, bounds: Bounds) -> None:
        """The bounds of the free classes are now these."""
        if self._serial == bounds.serial:
            return
        before, self._before = self._before, bounds
        if before is None:
            changed = self.free
        elif self._serial == bounds.serial - 1:
            changed = [one for one in bounds.changed if self._is_free[one]]
        else:
            changed = [one for one in self.free if before.high[one] != bounds.high[one]]
        self._serial = bounds.serial
        low, high = bounds.low, bounds.high
        if before is None or len(changed) > FEW_CHANGES:
            self._line = Waterline(self._own(low), self._own(high), self._own(self._offsets))
        elif changed:
            for one in changed:
                offset = self._offsets[one]
                self._line.move(before.low[one] + offset, before.high[one] + offset, low[one] + offset, high[one] + offset)
            self._line.moved(self._own(low), self._own(high))

    def _search(
        self, pieces: Sequence[Piece], capacity: int, level: int, parts: int, below: Level, above: Level, top: int
    ) -> tuple[int, int, int]:
        """The level between two at which all hold the capacity if these pieces are good there, and what is missing."""
        scale = lcm(*[piece.scale for piece in pieces])
        base = slope = 0
        for piece in pieces:
            finer = scale // piece.scale
            base += piece.sum_base * finer
            slope += piece.sum_slope * finer
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

    def _missing(self, pieces: Sequence[Piece], capacity: int, level: int, parts: int) -> tuple[int, int]:
        """What is missing to the capacity, and its scale."""
        scale = lcm(*[piece.scale for piece in pieces])
        missing = (capacity * parts - self._line.held(level, parts)[0]) * scale
        for piece in pieces:
            missing -= (piece.sum_base * parts + piece.sum_slope * level) * (scale // piece.scale)
        return missing, scale

    def _found(self, pieces: Sequence[Piece], level: int, parts: int) -> Found:
        scale = lcm(*[piece.scale for piece in pieces])
        amounts: dict[int, int] = {}
        for component, piece in zip(self.components, pieces, strict=True):
            finer = scale // piece.scale
            of_level, of_one = level * finer, parts * finer
            for one, base, slope in zip(component.classes, piece.base, piece.slope, strict=True):
                amounts[one] = base * of_one + slope * of_level
        return Found(level * scale, parts * scale, amounts)


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
