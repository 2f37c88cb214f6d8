"""Hypothesis strategies for random allocation problems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from qosweb.webqos.allocation.problem import PPM, Problem, Ratio, ShareBound

if TYPE_CHECKING:
    from collections.abc import Callable

# Round numbers meet, and ties are where mistakes are; odd ones need rounding.
amounts = st.integers(0, 20).map(lambda part: part * PPM // 20) | st.integers(0, 9) | st.integers(0, PPM)
demands = st.just(0) | st.just(PPM) | amounts | st.integers(PPM, 10**30)


@st.composite
def groups(draw: st.DrawFn, classes: int) -> tuple[int, ...]:
    return tuple(sorted(draw(st.sets(st.integers(0, classes - 1), min_size=1, max_size=classes))))


@st.composite
def nested_groups(draw: st.DrawFn, classes: int) -> list[tuple[int, ...]]:
    """Splits a sequence of classes into two, and the pieces again."""
    pieces = [tuple(range(classes))]
    found: list[tuple[int, ...]] = []
    for piece in pieces:  # grows while it is walked
        if draw(st.booleans()):
            found.append(piece)
        if len(piece) > 1 and draw(st.integers(0, 3)):
            cut = draw(st.integers(1, len(piece) - 1))
            pieces += [piece[:cut], piece[cut:]]
    return found


@st.composite
def ratios(draw: st.DrawFn, classes: int) -> Ratio:
    left = draw(st.sets(st.integers(0, classes - 1), min_size=1, max_size=2))
    right = draw(st.sets(st.integers(0, classes - 1), min_size=1, max_size=2)) - left
    return Ratio(
        tuple(sorted(left)),
        tuple(sorted(right)),
        draw(st.sampled_from((">=", "<=", "=="))),
        draw(st.integers(0, 4)),
        draw(st.integers(1, 4)),
        draw(st.integers(100, 104)),
    )


@st.composite
def orders(draw: st.DrawFn, classes: int) -> tuple[tuple[int, int], ...]:
    """A partial order along a random arrangement of the classes."""
    arranged = draw(st.permutations(range(classes)))
    pairs = [(a, b) for a in range(classes) for b in range(a + 1, classes)]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=3, unique=True)) if pairs else []
    return tuple((arranged[a], arranged[b]) for a, b in chosen)


def _bounds(draw: st.DrawFn, found: list[tuple[int, ...]], first: int, *, ceilings: bool) -> tuple[ShareBound, ...]:
    few = amounts.map(lambda ppm: ppm if ceilings else ppm // 2)
    return tuple(
        ShareBound(group, draw(few), first + k, hard=ceilings and draw(st.booleans())) for k, group in enumerate(found)
    )


def _problem(
    draw: st.DrawFn, classes: int, some_groups: Callable[[], list[tuple[int, ...]]], *, relations: bool, order: bool
) -> Problem:
    equal = draw(st.sets(st.integers(0, classes - 1))) if relations and draw(st.booleans()) else set()
    return Problem(
        classes,
        _bounds(draw, some_groups(), 0, ceilings=False),
        _bounds(draw, some_groups(), 50, ceilings=True),
        tuple(draw(st.lists(ratios(classes), max_size=2))) if relations else (),
        draw(orders(classes)) if order else (),
        (tuple(sorted(equal)),) if len(equal) > 1 else (),
        draw(groups(classes)) if order and draw(st.integers(0, 3)) == 0 else (),
    )


@st.composite
def nested_problems(draw: st.DrawFn, *, classes_max: int = 6, relations: bool = False, order: bool = True) -> Problem:
    """Bounds on groups that contain each other or are disjoint."""
    classes = draw(st.integers(1, classes_max))
    found = draw(nested_groups(classes))
    return _problem(
        draw, classes, lambda: [one for one in found if draw(st.booleans())], relations=relations, order=order
    )


@st.composite
def single_problems(draw: st.DrawFn, *, classes_max: int = 6, order: bool = True) -> Problem:
    """At most one floor and one ceiling per class, none on groups."""
    classes = draw(st.integers(1, classes_max))
    return _problem(
        draw,
        classes,
        lambda: [(one,) for one in range(classes) if draw(st.booleans())],
        relations=False,
        order=order,
    )


@st.composite
def any_problems(draw: st.DrawFn, *, classes_max: int = 5, relations: bool = True, order: bool = True) -> Problem:
    """Bounds that overlap in any way."""
    classes = draw(st.integers(1, classes_max))
    return _problem(
        draw,
        classes,
        lambda: draw(st.lists(groups(classes), max_size=4)),
        relations=relations,
        order=order,
    )


@st.composite
def with_demand(draw: st.DrawFn, problems: st.SearchStrategy[Problem]) -> tuple[Problem, tuple[int, ...]]:
    problem = draw(problems)
    return problem, tuple(draw(demands) for _ in range(problem.classes))
