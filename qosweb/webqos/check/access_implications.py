"""Implications between ``accessed`` conditions: an access to </a/b> is also an access to </a>."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.match.automaton import PatternAutomaton, TooManyWays
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.partition import STATES_MAX

if TYPE_CHECKING:
    from qosweb.webqos.model.domains import Key
    from qosweb.webqos.model.model import Model

SUBJECTS = ("accessed", "client_accessed")


def implied_accesses(model: Model) -> list[tuple[Key, Key]]:
    """Pairs (inner, outer) of accesses: the last outer access is never older than the last inner access."""
    conditions = [*model.atoms, *(rule.condition for rule in model.rules if rule.condition is not None)]
    asked = {
        (leaf.subject, int(leaf.argument))
        for condition in conditions
        for leaf in c.leaves(condition)
        if isinstance(leaf, c.Within) and leaf.subject in SUBJECTS
    }
    if len(asked) < 2:
        return []
    within = _within(model, sorted({number for _, number in asked}))
    return [
        ((subject, str(inner)), (other, str(outer)))
        for subject, inner in sorted(asked)
        for other, outer in sorted(asked)
        if (subject, inner) != (other, outer) and SUBJECTS.index(other) <= SUBJECTS.index(subject)
        if inner == outer or (inner, outer) in within
    ]


def _within(model: Model, numbers: list[int]) -> set[tuple[int, int]]:
    """Pairs of page sets (inner, outer) where outer contains inner."""
    sets = [model.page_sets[number] for number in numbers]
    patterns = {pattern: None for page_set in sets for pattern in page_set.patterns}
    try:
        covers = PatternAutomaton(patterns).reachable(STATES_MAX)
    except TooManyWays:
        return set()
    place = {pattern: at for at, pattern in enumerate(patterns)}
    having = [{place[pattern] for pattern in page_set.patterns} for page_set in sets]
    return {
        (numbers[a], numbers[b])
        for a, inner in enumerate(sets)
        for b, outer in enumerate(sets)
        if a != b
        and (
            outer.kind == "all"
            or (
                inner.kind == outer.kind == "pages"
                and all(not cover.isdisjoint(having[b]) for cover in covers if not cover.isdisjoint(having[a]))
            )
        )
    }
