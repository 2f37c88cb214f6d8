"""Water levels in nested groups: how an amount divides when bounds of groups bind. Pure; neighbour of ``nested``.

Classes and groups are numbered together: first the classes, then the groups, each after all that it contains. A level
is a fraction p/q, and everything is counted in parts of 1/q, so that all arithmetic is in whole numbers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def pour(low: Sequence[int], high: Sequence[int], offsets: Sequence[int], amount: int) -> list[int]:
    """Divide as if there were no groups: one pass over the levels at which a class starts or stops to fill."""
    starts: list[int] = []
    stops: list[int] = []
    held = 0
    for least, most, offset in zip(low, high, offsets, strict=False):
        held += least
        if least < most:
            starts.append(least + offset)
            stops.append(most + offset)
    starts.sort()
    stops.sort()
    starts.append(stops[-1] if stops else 0)
    level = rising = s = 0
    for stop in stops:
        while starts[s] <= stop and s < len(stops):
            step = (starts[s] - level) * rising
            if held + step > amount:
                break
            held += step
            level = starts[s]
            rising += 1
            s += 1
        step = (stop - level) * rising
        if held + step >= amount:
            break
        held += step
        level = stop
        rising -= 1
    each, left = divmod(amount - held, rising) if rising else (0, 0)
    shares: list[int] = []
    for least, most, offset in zip(low, high, offsets, strict=False):
        here = level - offset
        if here < least:
            shares.append(least)
        elif here >= most:
            shares.append(most)
        else:
            shares.append(here + each + (left > 0))
            left -= 1
    return shares


class Tree:
    """Which classes and groups are directly inside each group (``children``), and all that is (``inside``)."""

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


class Division:
    """One division of what the last group, the whole, can hold."""

    def __init__(self, tree: Tree, offsets: Sequence[int], low: Sequence[int], high: Sequence[int]) -> None:
        self._classes = len(offsets)
        self._children = tree.children
        self._inside = tree.inside
        self._offsets = offsets
        self._low = low
        self._high = high

    def shares(self) -> list[int]:
        shares = [0] * self._classes
        whole = len(self._high) - 1
        own_level = [(whole, self._high[whole])]
        while own_level:
            group, amount = own_level.pop()
            children = self._children[group - self._classes]
            if max(children) < self._classes:
                low, high = [self._low[c] for c in children], [self._high[c] for c in children]
                parts = pour(low, high, [self._offsets[c] for c in children], amount)
                for c, part in zip(children, parts, strict=True):
                    shares[c] = part
                continue
            level = self._level(group, amount)
            held = self._held(group, level)
            scale = level.denominator
            same_level = [(group, amount)]
            while same_level:
                outer, amount = same_level.pop()
                children = self._children[outer - self._classes]
                for c, part in _rounded(children, held, scale, amount):
                    if c < self._classes:
                        shares[c] = part
                    elif self._low[c] * scale < held[c] < self._high[c] * scale:
                        same_level.append((c, part))
                    else:
                        own_level.append((c, part))
        return shares

    def _level(self, group: int, amount: int) -> Fraction:
        """The exact level at which what is in ``group`` holds ``amount``."""
        low, high, offsets, classes = self._low, self._high, self._offsets, self._classes
        filling = [c for c in self._inside[group - classes] if c < classes and low[c] < high[c]]
        if not filling:
            return Fraction(0)
        marks = sorted({low[c] + offsets[c] for c in filling} | {high[c] + offsets[c] for c in filling})
        below, above = 0, len(marks)  # the level is at or above marks[below] and below marks[above]
        while above - below > 1:
            middle = (below + above) // 2
            held = self._held(group, Fraction(marks[middle]))
            if sum([held[c] for c in self._children[group - classes]]) <= amount:
                below = middle
            else:
                above = middle
        # Between two marks only groups change pace, when they reach their bounds.
        level = Fraction(marks[below])
        while True:
            held_now, slope, turn = self._ahead(group, level)
            missing = amount * level.denominator - held_now
            if missing <= 0:
                return level
            step = Fraction(missing, slope) if slope else None
            if step is None or (turn is not None and turn < step):
                assert turn is not None, "more to divide than the group can hold"
                step = turn
            level += step / level.denominator

    def _held(self, group: int, level: Fraction) -> dict[int, int]:
        """What each class and group inside ``group`` holds at ``level``, in parts of its denominator."""
        p, q = level.numerator, level.denominator
        lows, highs, offsets, classes = self._low, self._high, self._offsets, self._classes
        held: dict[int, int] = {}
        for c in self._inside[group - classes]:
            if c < classes:
                amount = p - offsets[c] * q
            else:
                amount = sum([held[inner] for inner in self._children[c - classes]])
            least, most = lows[c] * q, highs[c] * q
            held[c] = least if amount < least else most if amount > most else amount
        return held

    def _ahead(self, group: int, level: Fraction) -> tuple[int, int, Fraction | None]:
        """What the members of ``group`` hold in sum, how fast that rises, and how far it is until one changes pace."""
        p, q = level.numerator, level.denominator
        held: dict[int, int] = {}
        pace: dict[int, int] = {}
        turns: list[int] = []
        slow_turns: list[Fraction] = []
        for c in self._inside[group - self._classes]:
            low, high = self._low[c] * q, self._high[c] * q
            if c < self._classes:
                amount, speed = p - self._offsets[c] * q, 1
                if amount < high:
                    turns.append((high if amount >= low else low) - amount)
            else:
                children = self._children[c - self._classes]
                amount, speed = sum([held[inner] for inner in children]), sum([pace[inner] for inner in children])
                if speed and amount < high:
                    slow_turns.append(Fraction((high if amount >= low else low) - amount, speed))
            held[c] = min(max(amount, low), high)
            pace[c] = speed if low <= amount < high else 0
        if turns:
            slow_turns.append(Fraction(min(turns)))
        children = self._children[group - self._classes]
        return sum(held[c] for c in children), sum(pace[c] for c in children), min(slow_turns, default=None)


def _rounded(children: Sequence[int], held: dict[int, int], scale: int, amount: int) -> list[tuple[int, int]]:
    """Whole parts of a whole amount: rounded down, then one more for those with the largest fraction."""
    parts = [divmod(held[c], scale) for c in children]
    left = amount - sum(whole for whole, _ in parts)
    order = sorted(range(len(parts)), key=lambda k: (-parts[k][1], k))
    more = set(order[:left])
    return [(c, whole + (k in more)) for k, (c, (whole, _)) in enumerate(zip(children, parts, strict=True))]
