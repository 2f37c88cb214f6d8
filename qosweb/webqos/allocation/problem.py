"""Allocation problem: bounds, relations and priorities over the classes of a specification. Pure, integers only.

Every share is in parts per million of the capacity. Classes are numbers from 0. A problem does not contain the demand:
``shares`` divides the capacity for one demand, ``feasibility`` checks whether the bounds can be met together at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class ShareBound:
    """A bound on the sum of the shares of some classes."""

    classes: tuple[int, ...]
    ppm: int
    constraint: int
    hard: bool = False

    def __post_init__(self) -> None:
        if self.ppm < 0:
            raise ValueError(f"a bound of {self.ppm} ppm")
        _check_group(self.classes)


@dataclass(frozen=True, slots=True)
class Ratio:
    """sum(left) >= | <= | == numerator / denominator * sum(right)."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    op: Literal[">=", "<=", "=="]
    numerator: int
    denominator: int
    constraint: int

    def __post_init__(self) -> None:
        if self.numerator < 0 or self.denominator <= 0:
            raise ValueError(f"a ratio of {self.numerator}/{self.denominator}")
        _check_group(self.left)
        _check_group(self.right)


@dataclass(frozen=True, slots=True)
class Problem:
    """All rules for the shares of ``classes`` classes at one time."""

    classes: int
    floors: tuple[ShareBound, ...]
    ceilings: tuple[ShareBound, ...]
    ratios: tuple[Ratio, ...] = ()
    before: tuple[tuple[int, int], ...] = ()
    equal: tuple[tuple[int, ...], ...] = ()
    rest: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        groups = [
            *(bound.classes for bound in (*self.floors, *self.ceilings)),
            *(side for ratio in self.ratios for side in (ratio.left, ratio.right)),
            *self.before,
            *self.equal,
            self.rest,
        ]
        for group in groups:
            if not all(0 <= one < self.classes for one in group):
                raise ValueError(f"{group} names a class that is not below {self.classes}")

    def ancestors(self) -> list[frozenset[int]]:
        """For every class the classes that come before it, directly or not; raises ValueError if there is a cycle."""
        later: list[list[int]] = [[] for _ in range(self.classes)]
        waiting = [0] * self.classes
        for first, then in self.before:
            later[first].append(then)
            waiting[then] += 1
        found: list[set[int]] = [set() for _ in range(self.classes)]
        ready = [one for one in range(self.classes) if not waiting[one]]
        for one in ready:  # grows during the iteration
            for then in later[one]:
                found[then] |= {one, *found[one]}
                waiting[then] -= 1
                if not waiting[then]:
                    ready.append(then)
        if len(ready) < self.classes:
            raise ValueError("the order of priority has a cycle")
        return [frozenset(group) for group in found]

    def levels(self, full: frozenset[int] = frozenset()) -> tuple[int, ...]:
        """The rank of every class, without gaps: 0 is filled first.

        The classes in ``full`` have their whole demand: they rank first, to keep it, and hold no class back. Of the
        others, a class ranks one below the lowest of those that come before it. Classes that take the rest rank below
        all others, among themselves by the same rule.
        """
        above = [group - full for group in self.ancestors()]
        level = [0] * self.classes
        for one in sorted(range(self.classes), key=lambda one: len(above[one])):  # fewest ancestors first
            level[one] = -1 if one in full else max((level[first] + 1 for first in above[one]), default=0)
        below = 1 + max(level, default=0)
        for one in self.rest:
            level[one] += below if one not in full else 0
        ranks = {found: rank for rank, found in enumerate(sorted({*level}))}
        return tuple(ranks[found] for found in level)


def _check_group(classes: tuple[int, ...]) -> None:
    if any(a >= b for a, b in pairwise(classes)):
        raise ValueError(f"classes {classes} are not sorted, or name one twice")
