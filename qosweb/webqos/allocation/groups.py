"""Bounds on groups of classes, as the methods of allocation use them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from qosweb.webqos.allocation.problem import Bound

Group = tuple[tuple[int, ...], int]  # classes, and the bound on the sum of their shares


def lower_bounds(bounds: Iterable[Bound]) -> list[Group]:
    """One bound for each set of classes, the one that binds, and none for the empty set."""
    found: dict[tuple[int, ...], int] = {}
    for bound in bounds:
        if bound.classes:
            found[bound.classes] = max(bound.ppm, found.get(bound.classes, bound.ppm))
    return list(found.items())


def upper_bounds(bounds: Iterable[Bound]) -> list[Group]:
    """The same for bounds from above."""
    found: dict[tuple[int, ...], int] = {}
    for bound in bounds:
        if bound.classes:
            found[bound.classes] = min(bound.ppm, found.get(bound.classes, bound.ppm))
    return list(found.items())


def missed(floors: Iterable[Group], shares: Sequence[Fraction] | Sequence[int], demand: Sequence[int]) -> bool:
    """Is one of these floors not met, although its classes ask for it?"""
    for group, ppm in floors:
        held = sum([shares[one] for one in group])
        if held < ppm and held < sum([demand[one] for one in group]):
            return True
    return False


def exceeded(ceilings: Iterable[Group], shares: Sequence[int]) -> bool:
    return any(sum([shares[one] for one in group]) > ppm for group, ppm in ceilings)
