"""Classes that are bound to each other, and to others by nothing but the capacity. Pure, exact.

What they hold only depends on the level of the water and on their own demands. How they stood before is remembered as
shapes; what no shape explains is found by linear programs, which are small, and is a shape from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.active_sets import Asked, Piece, Rule, shape_of
from qosweb.webqos.allocation.general import Relation, fill_to
from qosweb.webqos.allocation.groups import picker
from qosweb.webqos.allocation.problem import PPM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.active_sets import Shape
    from qosweb.webqos.allocation.groups import Exact, Group
    from qosweb.webqos.allocation.waterline import Bounds, Level

SHAPES_MAX = 48


class Rules:
    """What binds some classes. All ceilings and floors are given, of single classes and of groups.

    Sets of classes that are ``full`` have all that they may have.
    """

    def __init__(
        self,
        relations: Sequence[Relation],
        ceilings: Sequence[Group],
        floors: Sequence[Group],
        full: Sequence[tuple[int, ...]],
    ) -> None:
        self.relations = relations
        self.ceilings = ceilings
        self.floors = floors
        self.full = full
        sides = [side for r in relations for side in (r.left, r.right)]
        groups = [*sides, *(group for group, _ in (*ceilings, *floors)), *full]
        self.classes = sorted({one for group in groups for one in group})


class Component:
    """Some classes and their rules."""

    def __init__(self, offsets: Sequence[int], rules: Rules) -> None:
        self.classes = rules.classes
        self._offsets = [offsets[one] for one in self.classes]
        self._priorities = [offset // PPM for offset in self._offsets]
        self._own = picker(self.classes)
        place = {one: k for k, one in enumerate(self.classes)}

        def places(group: Iterable[int]) -> tuple[int, ...]:
            return tuple(place[one] for one in group)

        self._relations = [
            Relation(places(r.left), places(r.right), r.weight_left, r.weight_right) for r in rules.relations
        ]
        self._ceilings = [(places(group), ppm) for group, ppm in rules.ceilings]
        self._floors = [(places(group), ppm) for group, ppm in rules.floors]
        self._full = [places(group) for group in rules.full]
        ceilings = [(group, ppm) for group, ppm in self._ceilings if len(group) > 1]
        self._group_floors = [(group, ppm) for group, ppm in self._floors if len(group) > 1]
        self._rules = [Rule(tuple((k, 1) for k in group)) for group, _ in ceilings]
        self._rules += [_rule(relation) for relation in self._relations]
        self._rules += [Rule(tuple((k, -1) for k in group)) for group, _ in self._group_floors]
        self._limits = [*(ppm for _, ppm in ceilings), *(0 for _ in self._relations)]
        self._shapes: list[Shape] = []
        self._serial = -1
        self._taken: tuple[tuple[int, ...], ...] = ()
        self._asked = Asked((), (), ())
        self._yielded: list[Piece] = []  # pieces for this demand, where floors yield

    def take(self, bounds: Bounds) -> None:
        """The demands are now these."""
        if self._serial == bounds.serial:
            return
        self._serial = bounds.serial
        own = self._own
        taken = own(bounds.demand), own(bounds.low), own(bounds.high)
        if taken == self._taken:
            return
        self._taken = taken
        self._yielded.clear()
        wanted, low, high = taken
        if self._full:
            at_least = list(low)
            for group in self._full:
                for k in group:
                    at_least[k] = high[k]
            low = tuple(at_least)
        limits = self._limits
        if self._group_floors:
            limits = [*limits, *(-min(ppm, sum([wanted[k] for k in group])) for group, ppm in self._group_floors)]
        self._asked = Asked(low, high, limits)

    def guess(self, level: int) -> Piece:
        """The piece of the last shape, wherever it is good; else that at this level."""
        piece = self._shapes[0].piece(self._asked) if self._shapes else None
        return piece if piece is not None else self.piece(level, 1)

    def piece(self, level: int, parts: int) -> Piece:
        """A piece that is good at ``level / parts``."""
        shapes = self._shapes
        for n, shape in enumerate(shapes):
            piece = None if shape.is_far(self._asked, level, parts) else shape.piece(self._asked)
            if piece is not None and piece.covers(level, parts):
                if n:
                    shapes.insert(0, shapes.pop(n))
                return piece
        for piece in self._yielded:
            if piece.covers(level, parts):
                return piece
        exact = fill_to(
            level, parts, self._taken[0], self._priorities, self._floors, self._ceilings, self._relations, self._full
        )
        level *= exact.scale // parts
        piece = self._learn(level, exact) or self._yield(level, exact)
        return piece if piece.covers(level, exact.scale) else _point((level, exact.scale), exact)

    def _learn(self, level: int, exact: Exact) -> Piece | None:
        """Remember the shape of shares that are max-min; the piece that follows from it."""
        shape = shape_of(self._rules, self._offsets, self._asked, level, exact.scale, exact.amounts)
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

    def _yield(self, level: int, exact: Exact) -> Piece:
        """The piece when floors could not all be met: they are what they came to, whatever the level, with this demand.

        What they came to are fractions, so everything is counted in parts of the scale.
        """
        amounts, scale = exact
        low, high, limits = self._asked
        offsets = [offset * scale for offset in self._offsets]
        held = [sum([weight * amounts[k] for k, weight in rule.terms]) for rule in self._rules]
        asked = Asked(
            [min(least * scale, amount) for least, amount in zip(low, amounts, strict=True)],
            [most * scale for most in high],
            [max(limit * scale, sum_of_rule) for limit, sum_of_rule in zip(limits, held, strict=True)],
        )
        shape = shape_of(self._rules, offsets, asked, level, 1, amounts)
        piece = shape.piece(asked) if shape is not None else None
        if piece is None:
            return _point((level, scale), exact)
        piece = Piece(
            (piece.least[0], piece.least[1] * scale),
            (piece.most[0], piece.most[1] * scale),
            piece.base,
            [slope * scale for slope in piece.slope],
            piece.scale * scale,
            piece.sum_base,
            piece.sum_slope * scale,
        )
        self._yielded.append(piece)
        return piece


def _point(here: Level, exact: Exact) -> Piece:
    """A piece for one level alone."""
    return Piece(here, here, exact.amounts, [0] * len(exact.amounts), exact.scale, sum(exact.amounts), 0)


def _rule(relation: Relation) -> Rule:
    weights: dict[int, int] = {}
    for k in relation.right:
        weights[k] = relation.weight_right
    for k in relation.left:
        weights[k] = weights.get(k, 0) - relation.weight_left
    return Rule(tuple((k, weight) for k, weight in sorted(weights.items()) if weight))
