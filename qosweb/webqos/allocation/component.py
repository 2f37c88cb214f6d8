"""Classes that are bound to each other, and to others by nothing but the capacity. Pure, exact.

What they hold only depends on the level of the water and on their own demands. How they stood before is remembered as
shapes; what no shape explains is found by the solver for this kind of rules, if there is one, and is a shape from then
on.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.groups import picker
from qosweb.webqos.allocation.rising import Rising
from qosweb.webqos.allocation.shapes import Asked, Piece, Rule, shape_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.general import Relation
    from qosweb.webqos.allocation.groups import Group
    from qosweb.webqos.allocation.shapes import Shape
    from qosweb.webqos.allocation.waterline import Bounds

SHAPES_MAX = 8


class Component:
    """The rules for some classes; ``full`` ones have all that they may have."""

    def __init__(
        self,
        offsets: Sequence[int],
        relations: Sequence[Relation],
        ceilings: Sequence[Group],
        floors: Sequence[Group],
        full: frozenset[int],
    ) -> None:
        sides = [side for r in relations for side in (r.left, r.right)]
        self.classes = sorted({one for group in (*sides, *(g for g, _ in (*ceilings, *floors)), full) for one in group})
        self._offsets = [offsets[one] for one in self.classes]
        solver = Rising(offsets, relations, ceilings, floors, full)
        self._solver = solver if solver.possible else None
        self._own = picker(self.classes)
        place = {one: k for k, one in enumerate(self.classes)}
        self._full = [place[one] for one in sorted(full)]
        self._rules = [Rule(tuple((place[one], 1) for one in group)) for group, _ in ceilings]
        self._limits = [ppm for _, ppm in ceilings]
        self._rules += [
            Rule(_terms([(place[one], r.weight_right) for one in r.right], [(place[one], -r.weight_left) for one in r.left]))
            for r in relations
        ]
        self._limits += [0 for _ in relations]
        self._floors = [(tuple(place[one] for one in group), ppm) for group, ppm in floors]
        self._rules += [Rule(tuple((k, -1) for k in group)) for group, _ in self._floors]
        self._shapes: list[Shape] = []
        self._serial = -1
        self._taken: tuple[tuple[int, ...], ...] = ()
        self._asked = Asked((), (), ())
        self._begun = False
        self._flat: Piece | None = None

    def take(self, demand: Sequence[int], bounds: Bounds) -> None:
        """The demands are now these."""
        if self._serial == bounds.serial:
            return
        self._serial = bounds.serial
        own = self._own
        taken = own(demand), own(bounds.low), own(bounds.high)
        if taken == self._taken:
            return
        self._taken = taken
        self._begun = False
        self._flat = None
        wanted, low, high = taken
        if self._full:
            at_least = list(low)
            for k in self._full:
                at_least[k] = high[k]
            low = tuple(at_least)
        limits = self._limits
        if self._floors:
            limits = [*limits, *(-min(ppm, sum([wanted[k] for k in group])) for group, ppm in self._floors)]
        self._asked = Asked(low, high, limits)

    def guess(self, level: int) -> Piece | None:
        """The piece of the last shape, wherever it is good; else that at this level."""
        piece = self._shapes[0].piece(self._asked) if self._shapes else None
        return piece if piece is not None else self.piece(level, 1)

    def piece(self, level: int, parts: int) -> Piece | None:
        """A piece that is good at ``level / parts``; None if nobody knows."""
        shapes = self._shapes
        for n, shape in enumerate(shapes):
            piece = shape.piece(self._asked)
            if piece is not None and piece.covers(level, parts):
                if n:
                    shapes.insert(0, shapes.pop(n))
                return piece
        if self._flat is not None and self._flat.covers(level, parts):
            return self._flat
        return self._find(level, parts)

    def _find(self, level: int, parts: int) -> Piece | None:
        if self._solver is None:
            return None
        if not self._begun:
            self._begun = True
            self._solver.begin(*self._taken)
        stood = self._solver.stand(level, parts)
        if stood is None:
            return None
        found, (pace, unit) = stood
        amounts = [found.amounts[one] for one in self.classes]
        piece = self.learn(found.level, found.parts, amounts)
        if piece is None or not piece.covers(level, parts):
            piece = self._point(level, parts, amounts, found.parts, pace, unit)
        return piece

    def _point(self, level: int, parts: int, amounts: list[int], scale: int, pace: int, unit: int) -> Piece:
        """A piece that is good at one level, or between two where all hold the same: nobody falls when others rise."""
        divisor = gcd(scale, *amounts)
        amounts = [amount // divisor * unit for amount in amounts]
        scale = scale // divisor * unit
        least = most = level, parts
        flat = self._flat
        if flat is not None and flat.base == amounts and flat.scale == scale:
            least, most = flat.least, flat.most
            if level * least[1] < least[0] * parts:
                least = level, parts
            if level * most[1] > most[0] * parts:
                most = level, parts
        held = sum(amounts)
        still = [0] * len(amounts)
        self._flat = Piece(least, most, amounts, still, scale, held, 0)
        pace = pace * scale // unit
        here = level, parts
        finer = [amount * parts for amount in amounts]
        return Piece(here, here, finer, still, scale * parts, held * parts - pace * level, pace * parts)

    def learn(self, level: int, parts: int, amounts: Sequence[int]) -> Piece | None:
        """Remember the shape of shares that are max-min; the piece that follows from it."""
        shape = shape_of(self._rules, self._offsets, self._asked, level, parts, amounts)
        if shape is None:
            return None
        shapes = self._shapes
        known = next((n for n, other in enumerate(shapes) if other.key == shape.key), None)
        if known is not None:
            shape = shapes.pop(known)
        elif len(shapes) >= SHAPES_MAX:
            shapes.pop()
        shapes.insert(0, shape)
        return shape.piece(self._asked)


def _terms(*terms: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Weights of the same class in one."""
    total: dict[int, int] = {}
    for some in terms:
        for k, weight in some:
            total[k] = total.get(k, 0) + weight
    return tuple((k, weight) for k, weight in sorted(total.items()) if weight)
