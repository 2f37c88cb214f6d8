"""Water-filling for nested groups. Helper of `nested`. Pure.

Classes and groups are numbered together: first the classes, then the groups, each after all that it contains. A level
is a fraction p/q, and all amounts are counted in parts of 1/q, so that all arithmetic is in integers.

To find the level in a group, take its classes as if no group inside it were bound. At that level, apply the bounds. If
the group then holds too much, the true level is lower, so what its lower bound has lifted stays at that bound. If it
holds too little, the true level is higher, and what its upper bound has cut stays there. Each step settles at least one
class or group; repeat until the level is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def surface(low: Sequence[int], high: Sequence[int], offsets: Sequence[int], amount: int) -> tuple[int, int, int]:
    """The level at which classes without groups hold ``amount``: a level below it, the amount missing there, and pace.

    One pass over the levels at which a class starts or stops to fill.
    """
    starts: list[int] = []
    stops: list[int] = []
    for least, most, offset in zip(low, high, offsets, strict=False):
        amount -= least
        if least < most:
            starts.append(least + offset)
            stops.append(most + offset)
    starts.sort()
    stops.sort()
    starts.append(stops[-1] + 1 if stops else 0)
    level = rising = s = 0
    start = starts[0]
    for stop in stops:
        while start <= stop:
            step = (start - level) * rising
            if step > amount:
                break
            amount -= step
            level = start
            rising += 1
            s += 1
            start = starts[s]
        step = (stop - level) * rising
        if step >= amount:
            break
        amount -= step
        level = stop
        rising -= 1
    return level, amount, rising


class GroupTree:
    """The classes and groups directly inside each group (``children``), and all nested ones (``inside``)."""

    def __init__(self, classes: int, groups: Sequence[tuple[int, ...]]) -> None:
        self.children: list[tuple[int, ...]] = []
        self.inside: list[list[int]] = []
        top = list(range(classes))  # for each class, the largest group so far that contains it
        for g, group in enumerate(groups, classes):
            children = tuple(dict.fromkeys(top[one] for one in group))
            self.children.append(children)
            self.inside.append([c for child in children for c in (*self._within(child - classes), child)])
            for one in group:
                top[one] = g

    def _within(self, g: int) -> list[int]:
        return self.inside[g] if g >= 0 else []


class WaterDivision:
    """Divides the capacity of the last group, which contains all classes."""

    def __init__(self, tree: GroupTree, offsets: Sequence[int], low: Sequence[int], high: Sequence[int]) -> None:
        self._classes = len(offsets)
        self._children = tree.children
        self._inside = tree.inside
        self._offsets = offsets
        self._low = low
        self._high = high

    def shares(self) -> list[int]:
        """The integer shares of all classes."""
        shares = [0] * self._classes
        whole = len(self._high) - 1
        own_level = [(whole, self._high[whole])]
        while own_level:
            group, amount = own_level.pop()
            held, scale, bound = self._held_by_members(group, amount)
            same_level = [(group, amount)]
            while same_level:
                outer, amount = same_level.pop()
                for c, part in _rounded(self._children[outer - self._classes], held, scale, amount):
                    if c < self._classes:
                        shares[c] = part
                    elif c in bound:
                        own_level.append((c, part))
                    else:
                        same_level.append((c, part))
        return shares

    def _held_by_members(self, group: int, amount: int) -> tuple[dict[int, int], int, set[int]]:
        """Amounts of each class and group inside ``group`` when it holds ``amount``; their scale; which are bound."""
        low, high, offsets, classes = self._low, self._high, self._offsets, self._classes
        inside = self._inside[group - classes]
        settled: dict[int, int] = {}
        while True:
            free = [c for c in inside if c < classes]
            level, missing, rising = surface(
                [low[c] for c in free],
                [high[c] for c in free],
                [offsets[c] for c in free],
                amount - sum(settled.values()),
            )
            scale = rising or 1
            level = level * scale + missing
            held: dict[int, int] = {}
            lifted: dict[int, int] = {}
            cut: dict[int, int] = {}
            for c in inside:
                if c < classes:
                    least, most = low[c] * scale, high[c] * scale
                    here = level - offsets[c] * scale
                    held[c] = least if here < least else min(here, most)
                elif c in settled:
                    held[c] = settled[c] * scale
                else:
                    here = sum([held[inner] for inner in self._children[c - classes]])
                    if here < low[c] * scale:
                        lifted[c] = low[c]
                        here = low[c] * scale
                    elif here > high[c] * scale:
                        cut[c] = high[c]
                        here = high[c] * scale
                    held[c] = here
            too_much = sum([held[c] for c in self._children[group - classes]]) - amount * scale
            if not too_much:
                return held, scale, {*settled, *lifted, *cut}
            for c, bound in (lifted if too_much > 0 else cut).items():
                within = set(self._inside[c - classes])
                inside = [other for other in inside if other not in within]
                settled = {other: held_by for other, held_by in settled.items() if other not in within}
                settled[c] = bound


def _rounded(children: Sequence[int], held: dict[int, int], scale: int, amount: int) -> list[tuple[int, int]]:
    """Integer parts of an integer amount: rounded down, then one more for those with the largest fraction."""
    parts = [divmod(held[c], scale) for c in children]
    left = amount - sum(whole for whole, _ in parts)
    order = sorted(range(len(parts)), key=lambda k: (-parts[k][1], k))
    more = set(order[:left])
    return [(c, whole + (k in more)) for k, (c, (whole, _)) in enumerate(zip(children, parts, strict=True))]
