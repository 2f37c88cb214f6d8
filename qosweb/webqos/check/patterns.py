"""Checks for redundant patterns: covered by another pattern of the set, equal to another set, or never matched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.match.automaton import PatternAutomaton, TooManyWays
from qosweb.webqos.match.matcher import in_force
from qosweb.webqos.model.partition import STATES_MAX
from qosweb.webqos.syntax.diagnostics import Note, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qosweb.webqos.model.model import Model
    from qosweb.webqos.specification import Specification
    from qosweb.webqos.syntax.diagnostics import Diagnostic


def check_patterns(policy: Specification, model: Model) -> Iterator[Diagnostic]:
    yield from _within_sets(policy, model)
    yield from _same_pages(policy, model)
    yield from _default(policy, model)


def _within_sets(policy: Specification, model: Model) -> Iterator[Diagnostic]:
    for number, page_set in enumerate(model.page_sets):
        if len(page_set.patterns) < 2:
            continue
        try:
            covers = PatternAutomaton(page_set.patterns).reachable(STATES_MAX)
        except TooManyWays:
            continue
        for at, pattern in enumerate(page_set.patterns):
            having = [cover for cover in covers if at in cover]
            others = frozenset.intersection(*having) - {at} if having else frozenset()
            covering = [
                other for other in others if not all(at in cover for cover in covers if other in cover) or other < at
            ]
            if covering:
                yield warning(
                    policy.pattern_places.get(pattern, policy.page_places[number]),
                    f"<{pattern}> has no effect: <{page_set.patterns[covering[0]]}> already covers it",
                    "remove it",
                )


def _same_pages(policy: Specification, model: Model) -> Iterator[Diagnostic]:
    used = [number for number in sorted(in_force(model)) if model.page_sets[number].kind == "pages"]
    covered: dict[frozenset[tuple[int, ...]], int] = {}
    having: dict[int, set[tuple[int, ...]]] = {number: set() for number in used}
    for one in model.classes:
        for number in one.pages:
            having[number].add(one.pages)
    for number in used:
        key = frozenset(having[number])
        if not key:
            continue
        if key in covered:
            first = covered[key]
            yield warning(
                policy.page_places[number],
                f"'{model.page_sets[number].name}' covers exactly the same pages as '{model.page_sets[first].name}'",
                "write it the same way both times",
                [Note(policy.page_places[first], "used here")],
            )
        else:
            covered[key] = number


def _default(policy: Specification, model: Model) -> Iterator[Diagnostic]:
    for number in in_force(model):
        if model.page_sets[number].kind == "default" and _everything_is_named(model):
            yield warning(
                policy.page_places[number], "no page is left for 'default': the patterns cover every page", ""
            )


def _everything_is_named(model: Model) -> bool:
    patterns = [
        pattern
        for number in in_force(model)
        for pattern in model.page_sets[number].patterns
        if pattern.host is None and set(pattern.segments) <= {"**"}
    ]
    return bool(patterns)
