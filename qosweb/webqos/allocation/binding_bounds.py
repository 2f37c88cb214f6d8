"""Max-min shares with as few of the bounds as bind. Pure, exact.

Of many bounds on groups few bind at one time. The shares are found without them, then again with those that turned out
to be broken, until all hold: what is best among more is best among fewer, if it is there. Which bounds bound the last
time is the first guess the next time; it saves time and cannot change the outcome, since there is only one best.

Floors among them that cannot all be met yield to each other; the others are met, so nothing better is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.component import Rules
from qosweb.webqos.allocation.groups import picker
from qosweb.webqos.allocation.level_search import Scene, components
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.allocation.waterline import Bounds, Found, whole_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.component import Component
    from qosweb.webqos.allocation.groups import Group
    from qosweb.webqos.allocation.packing import Packing
    from qosweb.webqos.allocation.relations import State
    from qosweb.webqos.allocation.rounding import Rounding

ROUNDS_MAX = 12
KEPT_MAX = 256
TIDY_EVERY = 17  # divisions, after which bounds that no longer bind are left out of the guess; odd, to meet all states
FEW_CHANGES = 8  # with more, what bound the last time says little

Key = tuple[tuple[int, ...], tuple[int, ...]]  # numbers of ceilings and of floors that bind
NOTHING: Key = ((), ())


class Lazy:
    """The bounds of a problem. ``related`` are the classes that relations name."""

    def __init__(
        self,
        offsets: Sequence[int],
        floors: Iterable[Group],
        ceilings: Iterable[Group],
        related: Iterable[int],
    ) -> None:
        classes = len(offsets)
        self._offsets = offsets
        self._top = PPM + max(offsets, default=0)
        self._near = PPM // max(classes, 1)  # where the search for the level begins: where the last one ended
        self._capacity = PPM
        self._floor_of = [0] * classes
        self._ceiling_of = [PPM] * classes
        self._floors: list[Group] = []
        self._ceilings: list[Group] = []
        floors, ceilings = list(floors), list(ceilings)
        self._own_floors = [(group, ppm) for group, ppm in floors if len(group) == 1]
        self._own_ceilings = [(group, ppm) for group, ppm in ceilings if len(group) == 1]
        for group, ppm in floors:
            if len(group) == 1:
                self._floor_of[group[0]] = ppm
            else:
                self._floors.append((group, ppm))
        for group, ppm in ceilings:
            if len(group) == classes:
                self._capacity = min(self._capacity, ppm)
            if len(group) == 1:
                self._ceiling_of[group[0]] = ppm
            elif len(group) < classes:
                self._ceilings.append((group, ppm))
        self._over = [(picker(group), ppm) for group, ppm in self._ceilings]
        self._under = [(picker(group), ppm) for group, ppm in self._floors]
        bound = {one for group, _ in (*self._floors, *self._ceilings) for one in group}
        self._watched = sorted({*bound, *related})
        self._demand: Sequence[int] = ()
        self._low: list[int] = []
        self._high: list[int] = []
        self._serial = 0
        self._scenes: dict[tuple[int, Key], Scene] = {}
        self._known: dict[object, Component | Packing] = {}
        self._found = 0
        self._few_changed = False
        self._bound_before: dict[int, Key] = {}

    def bounds(self, demand: Sequence[int]) -> Bounds | None:
        """What does not depend on relations; None if the floors of single classes cannot all be met."""
        before = self._demand
        self._serial += 1
        if len(before) == len(demand):
            changed = [one for one, (a, b) in enumerate(zip(before, demand, strict=True)) if a != b]
            low, high = self._low.copy(), self._high.copy()
        else:
            changed = [*range(len(demand))]
            low, high = [0] * len(demand), [0] * len(demand)
        self._few_changed = len(changed) <= FEW_CHANGES
        for one in changed:
            most, least = self._ceiling_of[one], self._floor_of[one]
            if demand[one] < most:
                most = demand[one]
            high[one] = most
            low[one] = least if least < most else most  # noqa: FURB136, min() takes several times as long
        self._demand, self._low, self._high = demand, low, high
        if sum(low) > self._capacity:
            return None
        return Bounds(demand, low, high, self._capacity, self._serial, changed)

    def settle(self, bounds: Bounds, state: State) -> Found | None:
        """The shares when this is what binds; None if there is less than what floors ask for together.

        The exact shares are right for the classes that bounds on groups or relations name; where the others are, the
        level tells.
        """
        before = binding = self._bound_before.get(state.number, NOTHING)
        for _ in range(ROUNDS_MAX):
            found = self._scene(state, binding).settle(bounds, self._top, self._near)
            if found is None:
                break
            broken = self._broken(found.amounts, found.parts, bounds.demand)
            more = _with(binding, broken) if broken != NOTHING else binding
            if more == binding:  # what is broken all the same are floors that have to yield
                self._found += self._few_changed  # when all change, what binds next is anybody's guess
                if self._few_changed and not self._found % TIDY_EVERY:
                    binding = self._tight(binding, found.amounts, found.parts, bounds.demand)
                if binding != before:
                    self._remember(state, binding)
                self._near = found.level // found.parts
                return found
            binding = more
        return None

    def whole(self, bounds: Bounds, found: Found, rounding: Rounding) -> list[int]:
        """The shares in whole parts per million."""
        level, parts, amounts, coupled, free = found
        level, rest = divmod(level, parts)
        low, high, offsets = bounds.low, bounds.high, self._offsets
        shares = whole_at(level, low, high, offsets)
        rounded: list[tuple[int, int]] = []
        for one in coupled:
            shares[one], own_rest = divmod(amounts[one], parts)
            if own_rest:
                rounded.append((-own_rest, one))
        if rest:
            rest = -rest
            rounded += [(rest, one) for one in free if low[one] <= level - offsets[one] < high[one]]
        return rounding.complete(shares, rounded, parts, bounds.demand)

    def amount(self, one: int, bounds: Bounds, found: Found) -> int:
        """What a class holds, rounded up."""
        level, parts, amounts, coupled, _ = found
        if one in coupled:
            return -(-amounts[one] // parts)
        here = -(-level // parts) - self._offsets[one]
        return max(bounds.low[one], min(bounds.high[one], here))

    def _scene(self, state: State, binding: Key) -> Scene:
        key = state.number, binding
        found = self._scenes.get(key)
        if found is None:
            if len(self._scenes) >= KEPT_MAX:
                self._scenes.clear()
                self._known.clear()
            ceilings = [*self._own_ceilings, *(self._ceilings[c] for c in binding[0])]
            floors = [*self._own_floors, *(self._floors[f] for f in binding[1])]
            bound = components(self._offsets, Rules(state.relations, ceilings, floors, state.full), self._known)
            found = self._scenes[key] = Scene(self._offsets, bound, self._watched)
        return found

    def _remember(self, state: State, binding: Key) -> None:
        if len(self._bound_before) >= KEPT_MAX:
            self._bound_before.clear()
        self._bound_before[state.number] = binding

    def _broken(self, amounts: Sequence[int], parts: int, demand: Sequence[int]) -> Key:
        ceilings = [c for c, (held_by, ppm) in enumerate(self._over) if sum(held_by(amounts)) > ppm * parts]
        floors = []
        for f, (held_by, ppm) in enumerate(self._under):
            held = sum(held_by(amounts))
            if held < ppm * parts and held < sum(held_by(demand)) * parts:
                floors.append(f)
        return (tuple(ceilings), tuple(floors)) if ceilings or floors else NOTHING

    def _tight(self, binding: Key, amounts: Sequence[int], parts: int, demand: Sequence[int]) -> Key:
        """Those that really bind."""
        ceilings = [c for c in binding[0] if sum(self._over[c][0](amounts)) == self._over[c][1] * parts]
        floors = []
        for f in binding[1]:
            held_by, ppm = self._under[f]
            if sum(held_by(amounts)) <= min(ppm, sum(held_by(demand))) * parts:
                floors.append(f)
        return (tuple(ceilings), tuple(floors)) if ceilings or floors else NOTHING


def _with(binding: Key, broken: Key) -> Key:
    return tuple(sorted({*binding[0], *broken[0]})), tuple(sorted({*binding[1], *broken[1]}))
