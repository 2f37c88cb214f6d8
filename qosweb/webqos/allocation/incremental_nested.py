"""Nested groups that are kept from one division to the next: what has not changed is not done again. Pure, exact.

Each group is a basin. It knows what the classes directly in it hold at any level (``waterline``); what a whole tree of
basins holds follows from its leaves up. A change of one demand changes one basin and the bounds of those around it. The
search for the level begins where the last one ended, so that a few looks at the basins suffice; and a basin that has a
level of its own and as much to divide as before keeps the shares that it had.

The outcome is that of ``water``, to the last part: there is only one level of max-min shares, and rounding depends on
nothing but the exact amounts there. First all classes are filled as if there were no groups; the basins only have to be
searched if a group cannot keep its bounds that way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.waterline import Waterline, next_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.water import GroupTree

FEW_CHANGES = 8  # with more, lists are sorted anew
STEPS_MAX = 60  # in the search for one level


class Basin:
    """A group: who is directly inside, what its bounds are for the present demand, and how it stood the last time."""

    __slots__ = (
        "amount",
        "bound",
        "ceiling",
        "children",
        "floor",
        "groups",
        "held",
        "high",
        "inside",
        "level",
        "line",
        "low",
        "most",
        "ones",
        "outer",
        "pace",
        "whole",
    )

    def __init__(self, ones: tuple[int, ...], groups: list[Basin], floor: int, ceiling: int) -> None:
        self.ones = ones
        self.groups = groups
        self.children: list[int | Basin] = []  # both, in the order in which they are rounded
        self.inside: list[Basin] = [inner for group in groups for inner in (*group.inside, group)]
        self.outer: Basin | None = None
        for group in groups:
            group.outer = self
        self.floor = floor
        self.ceiling = ceiling
        self.line = Waterline((), (), ())
        self.low = self.high = self.most = 0
        self.held = self.pace = 0  # at the level that was looked at last, in parts of it
        self.bound = False
        self.level = (0, 1)  # its own, when it had one
        # What its shares were found from: its amount, and the whole level around it, -1 for one of its own.
        self.amount = self.whole = -1

    def keeps(self, level: int, parts: int) -> bool:
        """Stand where this is the level of all inside: is that within the bounds?"""
        held, pace = self.line.held(level, parts)
        for group in self.groups:
            held += group.held
            pace += group.pace
        self.held = held
        self.pace = pace
        return self.low * parts <= held <= self.high * parts


class Basins:
    """All groups of a problem, the last one being the whole; ``floor`` and ``ceiling`` of classes and groups."""

    def __init__(self, tree: GroupTree, offsets: Sequence[int], floor: Sequence[int], ceiling: Sequence[int]) -> None:
        self._classes = classes = len(offsets)
        self._offsets = offsets
        self._floor = floor
        self._ceiling = ceiling
        self._top = max(ceiling, default=0) + max(offsets, default=0)
        self._basins: list[Basin] = []
        self._of: list[Basin | None] = [None] * classes
        for g, children in enumerate(tree.children, classes):
            ones = tuple(c for c in children if c < classes)
            groups = [self._basins[c - classes] for c in children if c >= classes]
            basin = Basin(ones, groups, floor[g], ceiling[g])
            basin.children = [c if c < classes else self._basins[c - classes] for c in children]
            self._basins.append(basin)
            for one in ones:
                self._of[one] = basin
        self._whole = self._basins[-1]
        self._inner = self._basins[:-1]
        self._offended = self._whole  # a group that could not keep its bounds in the last division
        self._demand: Sequence[int] = ()
        self._low: list[int] = []
        self._high: list[int] = []
        self._shares = [0] * classes  # as the basins divided the last time
        self._line = Waterline((), (), ())
        self._near = 0

    def divide(self, demand: Sequence[int]) -> list[int] | None:
        """The shares; None if the floors cannot all be met, or if they are beyond this method."""
        if not self._take(demand):
            self._demand = ()
            return None
        amount = self._whole.high
        level, parts = self._line.level(amount, self._near)
        self._near = level // parts
        offended = self._offended
        if offended is not self._whole and not offended.groups and not offended.keeps(level, parts):
            return self._by_basins()
        for basin in self._inner:
            if not basin.keeps(level, parts):
                self._offended = basin
                return self._by_basins()
        return self._evenly(level, parts, amount)

    def _evenly(self, level: int, parts: int, amount: int) -> list[int]:
        """All at one level, in whole parts."""
        whole, rest = divmod(level, parts)
        shares = self._line.whole(whole)
        same_level = [(self._whole, amount)] if rest else []
        while same_level:
            basin, amount = same_level.pop()
            if basin.groups:
                same_level += self._round(basin, level, parts, amount, shares)
            else:
                self._give(shares, basin.ones, whole, amount - basin.line.held(whole, 1)[0])
        return shares

    def _take(self, demand: Sequence[int]) -> bool:
        """Note what is asked for now. False if floors cannot all be met."""
        offsets, line = self._offsets, self._line
        fresh = not self._demand
        if not fresh:
            changed = [one for one, (a, b) in enumerate(zip(self._demand, demand, strict=True)) if a != b]
        else:
            changed = [*range(self._classes)]
            self._low, self._high = [0] * self._classes, [0] * self._classes
        self._demand = [*demand]
        low, high = self._low, self._high
        few = not fresh and len(changed) <= FEW_CHANGES and 2 * len(changed) <= self._classes
        touched: set[Basin] = set()
        for one in changed:
            ask, most, least = demand[one], self._ceiling[one], self._floor[one]
            if ask < most:
                most = ask
            if most < least:
                least = most
            if low[one] == least and high[one] == most:
                continue
            if few:
                line.move(low[one] + offsets[one], high[one] + offsets[one], least + offsets[one], most + offsets[one])
            low[one], high[one] = least, most
            basin = self._of[one]
            if basin is not None:
                touched.add(basin)
        if few and not touched:
            return True
        if few:
            line.moved(low, high)
        else:
            self._line = Waterline(low, high, offsets)
        return self._renew(touched, every=not few)

    def _renew(self, touched: set[Basin], *, every: bool) -> bool:
        """The bounds of basins in which classes have changed, and of those around them."""
        low, high, offsets = self._low, self._high, self._offsets
        around: set[Basin] = set()
        for basin in self._basins:  # each after all that it contains
            if not self._inner:
                basin.line = self._line
            elif basin in touched or every:
                ones = basin.ones
                basin.line = Waterline(
                    [low[one] for one in ones], [high[one] for one in ones], [offsets[one] for one in ones]
                )
            elif basin not in around:
                continue
            basin.amount = -1
            if basin.outer is not None:
                around.add(basin.outer)
            least, most = basin.line.least, basin.line.most
            for group in basin.groups:
                least += group.low
                most += group.high
            basin.most = most
            if basin.ceiling < most:
                most = basin.ceiling
            if least > most:
                return False
            basin.high = most
            basin.low = max(least, min(basin.floor, most))
        return True

    def _by_basins(self) -> list[int] | None:
        own_level = [(self._whole, self._whole.high)]
        while own_level:
            basin, amount = own_level.pop()
            if basin.amount == amount and basin.whole < 0:
                continue
            basin.amount, basin.whole = amount, -1
            if not basin.groups:
                level, parts = basin.line.level(amount)
                self._pour(basin, level // parts, amount)
                continue
            found = self._level(basin, amount)
            if found is None:
                self._demand = ()
                return None
            level, parts = found
            whole = level // parts
            same_level = [(basin, amount)]
            while same_level:
                basin, amount = same_level.pop()
                for group, part in self._round(basin, level, parts, amount, self._shares):
                    if group.bound:
                        own_level.append((group, part))
                    elif group.groups:
                        group.amount = -1
                        same_level.append((group, part))
                    elif group.amount != part or group.whole != whole:
                        group.amount, group.whole = part, whole
                        self._pour(group, whole, part)
        return [*self._shares]

    def _level(self, top: Basin, amount: int) -> tuple[int, int] | None:
        """The level at which all in this basin hold ``amount``; all inside stand there afterwards."""
        level, parts = top.level
        below, above = (-1, 1), (self._top + 1, 1)
        if amount == top.most:
            level, parts = self._top, 1
        for _ in range(STEPS_MAX):
            self._stand(top, level, parts)
            missing = amount * parts - top.held
            if not missing:
                top.level = level, parts
                return level, parts
            if missing > 0:
                below = level, parts
            else:
                above = level, parts
            level, parts = next_level(level, parts, missing, top.pace, below, above)
        return None

    def _stand(self, top: Basin, level: int, parts: int) -> None:
        """What each group inside holds at ``level / parts``, in these parts, and what it gains from there on."""
        for basin in top.inside:
            held, pace = basin.line.held(level, parts)
            for group in basin.groups:
                held += group.held
                pace += group.pace
            if held < basin.low * parts:
                held, pace, basin.bound = basin.low * parts, 0, True
            elif held >= basin.high * parts:
                held, pace, basin.bound = basin.high * parts, 0, True
            else:
                basin.bound = False
            basin.held = held
            basin.pace = pace
        held, pace = top.line.held(level, parts)
        for group in top.groups:
            held += group.held
            pace += group.pace
        top.held = held
        top.pace = pace

    def _round(self, basin: Basin, level: int, parts: int, amount: int, shares: list[int]) -> list[tuple[Basin, int]]:
        """Divide a whole amount among what is directly inside: rounded down, then one more for the largest fractions.

        Gives the classes their shares, and says what the groups get.
        """
        whole, rest = divmod(level, parts)
        fractions: list[tuple[int, int]] = []
        amounts: list[int] = []
        low, high, offsets = self._low, self._high, self._offsets
        for k, child in enumerate(basin.children):
            if isinstance(child, int):
                part = whole - offsets[child]
                if part < low[child]:
                    part = low[child]
                elif part >= high[child]:
                    part = high[child]
                elif rest:
                    fractions.append((-rest, k))
            else:
                part, fraction = divmod(child.held, parts)
                if fraction:
                    fractions.append((-fraction, k))
            amounts.append(part)
        left = amount - sum(amounts)
        if left:
            fractions.sort()
            for _, k in fractions[:left]:
                amounts[k] += 1
        groups: list[tuple[Basin, int]] = []
        for child, part in zip(basin.children, amounts, strict=True):
            if isinstance(child, int):
                shares[child] = part
            else:
                groups.append((child, part))
        return groups

    def _pour(self, basin: Basin, level: int, amount: int) -> None:
        """Divide among classes alone, at a whole level, what is left of the division to the lower numbers."""
        parts = basin.line.whole(level)
        shares = self._shares
        for one, part in zip(basin.ones, parts, strict=True):
            shares[one] = part
        self._give(shares, basin.ones, level, amount - sum(parts))

    def _give(self, shares: list[int], ones: Sequence[int], level: int, left: int) -> None:
        """One more for the first of those that rise at this level."""
        if not left:
            return
        high, offsets = self._high, self._offsets
        for one in ones:
            share = shares[one]
            if share < high[one] and share == level - offsets[one]:
                shares[one] = share + 1
                left -= 1
                if not left:
                    return
