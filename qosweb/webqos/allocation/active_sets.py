"""How a component stood once, and what follows from that for another level and other demands. Pure, exact.

A *shape* is what does not change when demands change by little: who is full, who stands at the level of the water, who
stands at lower bounds or together at a level of their own, and which rules bind. Given a shape, the shares follow from
level and demands by linear equations, so they are straight lines in the level: a *piece*, good between two levels.

Why that is exact, whatever was remembered. A share y (counted from the offset of its class) is max-min iff everybody
who is not full has a proof: a sum of binding rules, none of them taken negatively, in which he counts, nobody counts
negatively, and nobody counts who has more than he. (If he had more, the sum would be too large unless somebody with no
more than he had less. That there always is such a sum is Farkas' lemma.) The proof has factors of rules in it, and no
limits: so it proves other shares, too, for other limits, if

- they keep all rules and bounds,
- every rule that was bound still binds,
- who had no more than somebody not full still has no more than he.

A piece is good where these three hold. No factor has to be known. Bounds from below may cease to bind if none of their
classes had more than the lowest who is not full: in a proof they only serve to make classes count for nothing, which
such classes need not.

Nothing but the capacity binds a component to other classes. The level stands for those: it is one more share that is
not full. The proof of a level that several components share is the sum of what each has for it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.waterline import Level

FULL, LEAST, LEVEL = -1, -2, -3  # how a class stands; from 0: at a level of its own, with others or alone
WATER = -1  # in the place of a class: the level itself
FAR = 1 << 64


class Rule(NamedTuple):
    """The sum of ``weight * share`` is at most a limit."""

    terms: tuple[tuple[int, int], ...]  # (place of the class, weight)


class Asked(NamedTuple):
    """Bounds of the classes, and limits of the rules, for one demand."""

    low: Sequence[int]
    high: Sequence[int]
    limits: Sequence[int]


class Piece(NamedTuple):
    """Shares ``(base + slope * level) / scale`` from one level to another, and their sum, in the same scale."""

    least: Level
    most: Level
    base: Sequence[int]
    slope: Sequence[int]
    scale: int
    sum_base: int
    sum_slope: int

    def covers(self, level: int, parts: int) -> bool:
        least, most = self.least, self.most
        return least[0] * parts <= level * least[1] and level * most[1] <= most[0] * parts


class Shape:
    """Of one component, whose classes are known by their places in it."""

    def __init__(
        self,
        rules: Sequence[Rule],
        offsets: Sequence[int],
        states: Sequence[int],
        bound: Sequence[int],
        held: Sequence[int],
        order: Sequence[tuple[int, int]],
    ) -> None:
        """``bound``: numbers of rules; ``held``: who is bound from below; ``order``: the first has no more."""
        self.key = tuple(states), tuple(bound), tuple(held), tuple(order)
        self._rules = rules
        self._offsets = offsets
        self._states = states
        self._held = held
        self._order = order
        self._solved = _solve(rules, states, bound)
        self._chosen = self._solved[0] if self._solved is not None else ()
        self._bound = bound
        self._between = [k for k, state in enumerate(states) if state == LEVEL or state >= 0]
        self._even = [(k, offsets[k]) for k, state in enumerate(states) if state == LEVEL]
        self._below = [(k, offsets[k]) for k, above in order if above == WATER and states[k] == FULL]
        self._asked: Asked | None = None
        self._piece: Piece | None = None

    def is_far(self, asked: Asked, level: int, parts: int) -> bool:
        """Is it plain at first sight that this is not how all stand at ``level / parts``?"""
        low, high = asked.low, asked.high
        whole = level // parts
        for k, offset in self._even:
            if whole < low[k] + offset or whole > high[k] + offset:
                return True
        for k, offset in self._below:  # noqa: SIM110, half as fast with any()
            if whole < high[k] + offset:
                return True
        return False

    def piece(self, asked: Asked) -> Piece | None:
        """What follows for these demands; None if they do not go with this shape at any level."""
        if self._asked is not asked:
            self._asked = asked
            self._piece = self._follow(asked)
        return self._piece

    def _follow(self, asked: Asked) -> Piece | None:
        if self._solved is None:
            return None
        low, high, limits = asked
        for k in self._held:
            if self._states[k] == FULL and low[k] != high[k]:
                return None
        base: list[int] = []
        slope: list[int] = []
        for k, state in enumerate(self._states):
            base.append(high[k] if state == FULL else low[k] if state == LEAST else -self._offsets[k])
            slope.append(1 if state == LEVEL else 0)
        chosen, inverse, scale = self._solved
        if chosen:
            sides = [
                (
                    limits[r] - sum([weight * base[k] for k, weight in self._rules[r].terms]),
                    -sum([weight * slope[k] for k, weight in self._rules[r].terms]),
                )
                for r in chosen
            ]
            levels = [
                (
                    sum([factor * side[0] for factor, side in zip(row, sides, strict=True)]),
                    sum([factor * side[1] for factor, side in zip(row, sides, strict=True)]),
                )
                for row in inverse
            ]
            if scale != 1:
                base = [amount * scale for amount in base]
                slope = [amount * scale for amount in slope]
            for k, state in enumerate(self._states):
                if state >= 0:
                    base[k] += levels[state][0]
                    slope[k] += levels[state][1]
        span = self._span(asked, base, slope, scale)
        return Piece(*span, base, slope, scale, sum(base), sum(slope)) if span is not None else None

    def _span(self, asked: Asked, base: Sequence[int], slope: Sequence[int], scale: int) -> tuple[Level, Level] | None:
        """Between which levels all conditions hold."""
        low, high, limits = asked
        conditions: list[tuple[int, int]] = []  # what must not be negative: a number, and what it gains per level
        for k in self._between:
            conditions.append((base[k] - low[k] * scale, slope[k]))
            conditions.append((high[k] * scale - base[k], -slope[k]))
        for r in range(len(self._rules)):
            if r in self._chosen:
                continue
            here, pace = limits[r] * scale, 0
            for k, weight in self._rules[r].terms:
                here -= weight * base[k]
                pace -= weight * slope[k]
            if r in self._bound and (here or pace):
                return None
            conditions.append((here, pace))
        for k in self._held:
            if self._states[k] != FULL and self._states[k] != LEAST and (slope[k] or base[k] != low[k] * scale):
                return None
        offsets = self._offsets
        for less, more in self._order:
            here, pace = (base[more] + offsets[more] * scale, slope[more]) if more != WATER else (0, scale)
            if less != WATER:
                here -= base[less] + offsets[less] * scale
                pace -= slope[less]
            else:
                pace -= scale
            conditions.append((here, pace))
        least, of_least, most, of_most = 0, 1, FAR, 1
        for here, pace in conditions:
            if not pace:
                if here < 0:
                    return None
            elif pace > 0:
                if -here * of_least > least * pace:
                    least, of_least = -here, pace
            elif here * of_most < most * -pace:
                most, of_most = here, -pace
        return ((least, of_least), (most, of_most)) if least * of_most <= most * of_least else None


def shape_of(
    rules: Sequence[Rule], offsets: Sequence[int], asked: Asked, level: int, parts: int, amounts: Sequence[int]
) -> Shape | None:
    """The shape of max-min shares, in these parts, at a level; None if bounds from below were not met."""
    low, high, limits = asked
    heights = [amount + offset * parts for amount, offset in zip(amounts, offsets, strict=True)]
    members: dict[int, list[int]] = {level: []}
    for k, amount in enumerate(amounts):
        if not low[k] * parts <= amount <= high[k] * parts:
            return None
        if amount < high[k] * parts:
            members.setdefault(heights[k], []).append(k)
    levels = sorted(members)
    states = [FULL] * len(amounts)
    shown: list[int] = []  # for each level from below, one who shows it
    order: list[tuple[int, int]] = []
    inner = 0
    for height in levels:
        found = members[height]
        if height == level:
            state = LEVEL
            shown.append(WATER)
        elif all(amounts[k] == low[k] * parts for k in found):
            state = LEAST
            order += [pair for one in found[1:] for pair in ((found[0], one), (one, found[0]))]
            shown.append(found[0])
        else:
            state = inner
            inner += 1
            shown.append(found[0])
        for k in found:
            states[k] = state
    order += pairwise(shown)
    for k, state in enumerate(states):
        if state == FULL:
            above = next((shows for height, shows in zip(levels, shown, strict=True) if height >= heights[k]), None)
            if above is not None:
                order.append((k, above))
    lowest = levels[0]
    held = [k for k, amount in enumerate(amounts) if amount == low[k] * parts and heights[k] > lowest]
    bound: list[int] = []
    for r, rule in enumerate(rules):
        here = sum([weight * amounts[k] for k, weight in rule.terms])
        if here > limits[r] * parts:
            return None
        if here == limits[r] * parts and any(weight > 0 or heights[k] > lowest for k, weight in rule.terms):
            bound.append(r)
    return Shape(rules, offsets, states, bound, held, order)


def _solve(
    rules: Sequence[Rule], states: Sequence[int], bound: Sequence[int]
) -> tuple[list[int], list[list[int]], int] | None:
    """Which rules say where the levels of their own are: an inverse in whole numbers, and its scale; None if none do.

    Edmonds' elimination, as in ``simplex``.
    """
    size = 1 + max([-1, *states])
    rows: list[list[int]] = []
    for r in bound:
        row = [0] * size
        for k, weight in rules[r].terms:
            if states[k] >= 0:
                row[states[k]] += weight
        rows.append(row + [int(r == other) for other in bound])
    scale = 1
    chosen: list[int] = []
    for column in range(size):
        pivot_at = next((n for n, row in enumerate(rows) if n not in chosen and row[column]), None)
        if pivot_at is None:
            return None
        pivot_row = rows[pivot_at]
        pivot = pivot_row[column]
        for n, row in enumerate(rows):
            if n != pivot_at:
                factor = row[column]
                rows[n] = [
                    (entry * pivot - factor * other) // scale for entry, other in zip(row, pivot_row, strict=True)
                ]
        scale = pivot
        chosen.append(pivot_at)
    sign = -1 if scale < 0 else 1
    inverse = [[sign * rows[n][size + m] for m in chosen] for n in chosen]
    return [bound[n] for n in chosen], inverse, sign * scale
