"""Checks for conditions that never hold or always hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.check.access_implications import implied_accesses
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.domains import TooManySituations, situations
from qosweb.webqos.model.texts import are_distinguishable
from qosweb.webqos.syntax.diagnostics import error, warning
from qosweb.webqos.syntax.positions import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qosweb.webqos.model.model import Model
    from qosweb.webqos.specification import Specification
    from qosweb.webqos.syntax.diagnostics import Diagnostic

SITUATIONS_MAX = 5_000
TESTS_MAX = 3_000_000  # of all conditions together; beyond this they are not checked


def check_conditions(policy: Specification, model: Model) -> Iterator[Diagnostic]:
    """Evaluate each condition in all its situations."""
    known: dict[c.Condition, set[bool]] = {}
    tests = 0
    pairs = implied_accesses(model)
    for rule, node in zip(model.rules, [*policy.constraint_rules, *policy.priority_rules], strict=True):
        if rule.condition is None or node.condition is None:
            continue
        whole = expand(rule.condition, model)
        if whole not in known:
            try:
                tried = list(situations([whole], SITUATIONS_MAX, pairs))
            except TooManySituations:
                tried = []
            tests += len(tried) * sum(1 for _ in c.leaves(whole))
            known[whole] = {c.holds(whole, one) for one in tried} if tests <= TESTS_MAX else set()
        if known[whole] == {False}:
            yield error(node.condition.span, "this condition can never hold", "the statement has no effect")
        elif known[whole] == {True}:
            yield warning(node.condition.span, "this condition always holds", "remove it")


def check_texts(model: Model) -> Iterator[Diagnostic]:
    """Warn about tests of the same text that overlap in too many ways."""
    groups = {frozenset((*way.held, *way.failed)) for one in model.classes for way in one.ways[:1]}
    for atoms in sorted(groups, key=sorted):
        if not are_distinguishable(model.atoms[at] for at in sorted(atoms)):
            yield warning(
                Span(0, 0),
                "the conditions on texts overlap in too many ways: of each text at most two matches are considered",
                "combine conditions that have the same effect with 'or'",
            )
            return


def expand(condition: c.Condition, model: Model) -> c.Condition:
    """Replace the numbers of atoms by their conditions."""
    match condition:
        case c.Atom(index):
            return model.atoms[index]
        case c.Not(item):
            return c.Not(expand(item, model))
        case c.And(items):
            return c.And(tuple(expand(item, model) for item in items))
        case c.Or(items):
            return c.Or(tuple(expand(item, model) for item in items))
        case _:
            return condition
