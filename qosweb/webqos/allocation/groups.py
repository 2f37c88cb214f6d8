"""Bounds on groups of classes: the common representation of the allocation methods. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.problem import ShareBound

Group = tuple[tuple[int, ...], int]  # classes, and the bound on the sum of their shares


class Exact(NamedTuple):
    """Exact amounts of all classes, as numerators over a common denominator."""

    amounts: Sequence[int]
    scale: int


def lower_bounds(bounds: Iterable[ShareBound]) -> list[Group]:
    """The strictest lower bound for each set of classes; none for the empty set."""
    found: dict[tuple[int, ...], int] = {}
    for bound in bounds:
        if bound.classes:
            found[bound.classes] = max(bound.ppm, found.get(bound.classes, bound.ppm))
    return list(found.items())


def upper_bounds(bounds: Iterable[ShareBound]) -> list[Group]:
    """The strictest upper bound for each set of classes."""
    found: dict[tuple[int, ...], int] = {}
    for bound in bounds:
        if bound.classes:
            found[bound.classes] = min(bound.ppm, found.get(bound.classes, bound.ppm))
    return list(found.items())


def exceeded(ceilings: Iterable[Group], shares: Sequence[int]) -> bool:
    """True if one of these ceilings is exceeded."""
    for group, ppm in ceilings:  # noqa: SIM110, half as fast with any()
        if sum([shares[one] for one in group]) > ppm:
            return True
    return False
