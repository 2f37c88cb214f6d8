"""One level for all: the classes that are bound to each other, component by component, and beside them the free ones.

Nothing but the capacity binds one component to another, so each has its own course, which only depends on the level of
the water. What is left to find is the level at which all together hold the capacity. Pure, exact.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, Any, Protocol

from qosweb.webqos.allocation.packing import Packing
from qosweb.webqos.allocation.rising import Rising
from qosweb.webqos.allocation.waterline import Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.general import Relation
    from qosweb.webqos.allocation.groups import Group
    from qosweb.webqos.allocation.waterline import Bounds, Level

STEPS_MAX = 60  # in the search for the level
STOPS_MAX = 40


class Course(Protocol):
    """How a component rises with the level.

    A standing has ``level``, ``parts``; what the component holds ``beyond`` what its classes would hold unbound, in
    these parts, and what that gains per level (``beyond_pace``, in parts of the ``unit``).
    """

    def look(self, level: int, parts: int) -> Any: ...
    def advance(self, standing: Any) -> Any: ...
    def found(self, standing: Any) -> Found | None: ...


Component = Rising | Packing


def components(
    offsets: Sequence[int],
    relations: Sequence[Relation],
    ceilings: Sequence[Group],
    floors: Sequence[Group],
    full: frozenset[int],
    known: dict[object, Component],
) -> list[Component]:
    """What is bound to each other, apart from what is not; those that are ``known`` remember their course."""
    sets = [
        *((*r.left, *r.right) for r in relations),
        *(group for group, _ in (*ceilings, *floors)),
        *((one,) for one in sorted(full)),
    ]
    found: list[Component] = []
    for together in _connected(sets):
        own_relations = [r for r in relations if together.intersection((*r.left, *r.right))]
        own_ceilings = [(group, ppm) for group, ppm in ceilings if group[0] in together]
        own_floors = [(group, ppm) for group, ppm in floors if group[0] in together]
        own_full = full & together
        key = tuple(own_relations), tuple(own_ceilings), tuple(own_floors), own_full
        component = known.get(key)
        if component is None:
            if own_relations or own_floors or own_full:
                component = Rising(offsets, own_relations, own_ceilings, own_floors, own_full)
            else:
                component = Packing(offsets, own_ceilings)
            known[key] = component
        found.append(component)
    return found


def settle(
    bound: Sequence[Component], demand: Sequence[int], bounds: Bounds, top: int, near: Level
) -> tuple[Found, Level] | None:
    """The shares, and the level; None if they are beyond this method, or if floors have to yield.

    The search begins at ``near``, best where the last one ended: components that have not changed remember that level.
    """
    courses: list[Course] = []
    for component in bound:
        begun = component.begin(demand, bounds)
        if begun is None:
            return None
        courses.append(begun)
    for _ in range(STOPS_MAX):
        searched = _search(courses, bounds, *near, top)
        if searched is None:
            return None
        standings, near = searched
        settled = True
        for course, standing in zip(courses, standings, strict=True):
            after = course.advance(standing)
            if after is None:
                return None
            settled = settled and after is standing
        if settled:
            found = _together(courses, standings)
            return (found, near) if found is not None else None
    return None


def _search(
    courses: Sequence[Course], bounds: Bounds, level: int, parts: int, top: int
) -> tuple[list[Any], Level] | None:
    """How all stand where they hold the capacity together, or at the top; None if they hold more from the start."""
    line, capacity = bounds.line, bounds.capacity
    below, above = (-1, 1), (top + 1, 1)
    for _ in range(STEPS_MAX):
        here = level, parts
        standings = [course.look(level, parts) for course in courses]
        if None in standings:
            return None
        common = lcm(*[standing.parts for standing in standings])
        unit = lcm(*[standing.unit for standing in standings])
        others = sum([standing.beyond * (common // standing.parts) for standing in standings])
        pace = sum([standing.beyond_pace * (unit // standing.unit) for standing in standings])
        level, parts = level * (common // parts), common
        missing = capacity * parts - line.held(level, parts)[0] - others
        if not missing or (missing > 0 and level >= top * parts):
            return standings, here
        if missing > 0:
            below = level, parts
        elif level <= 0:
            return None
        else:
            above = level, parts
        level, parts = line.level_beside(capacity, level, parts, others, pace, unit, below, above)
        if level < 0:
            level = 0
        elif level > top * parts:
            level, parts = top, 1
    return None


def _together(courses: Sequence[Course], standings: Sequence[Any]) -> Found | None:
    founds: list[Found] = []
    for course, standing in zip(courses, standings, strict=True):
        found = course.found(standing)
        if found is None:
            return None
        founds.append(found)
    parts = lcm(*[found.parts for found in founds])
    amounts: dict[int, int] = {}
    for found in founds:
        finer = parts // found.parts
        amounts.update(found.amounts if finer == 1 else {one: amount * finer for one, amount in found.amounts.items()})
    return Found(founds[0].level * (parts // founds[0].parts), parts, amounts)


def _connected(sets: Iterable[tuple[int, ...]]) -> list[frozenset[int]]:
    """The unions of sets that have something in common."""
    found: list[frozenset[int]] = []
    for one in sets:
        together = frozenset(one)
        apart = []
        for other in found:
            if together.isdisjoint(other):
                apart.append(other)
            else:
                together |= other
        found = [*apart, together] if together else found
    return sorted(found, key=min)
