"""Compiles source text into a specification: parse, lower, divide requests into classes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from qosweb.webqos.model.lower import LoweredParts, lower
from qosweb.webqos.model.model import Model
from qosweb.webqos.model.partition import TooManyClasses, partition
from qosweb.webqos.specification import Specification
from qosweb.webqos.syntax.diagnostics import Diagnostic, error, has_errors
from qosweb.webqos.syntax.parser import parse
from qosweb.webqos.syntax.positions import Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

PAIRS_MAX = 300_000  # of classes, ordered by one priority


def build(source: Source, *, bind_shadows: bool = False) -> Specification:
    """Compile without checks. ``bind_shadows`` treats ``shadow`` statements as binding."""
    parsed, found = parse(source)
    lowered = lower(parsed, bind_shadows=bind_shadows)
    found += lowered.found
    if has_errors(found):
        return Specification(source, parsed, None, found)
    try:
        model = _model(lowered)
    except TooManyClasses as too_many:
        span = lowered.places[too_many.page_set] if too_many.page_set >= 0 else Span(0, 0)
        found.append(error(span, too_many.message, "fewer wildcards or conditions make fewer classes"))
        return Specification(source, parsed, None, found)
    found += _too_many_pairs(model, lowered)
    if has_errors(found):
        return Specification(source, parsed, None, found)
    return Specification(
        source,
        parsed,
        model,
        found,
        lowered.constraint_rules,
        lowered.priority_rules,
        lowered.places,
        lowered.pattern_places,
        lowered.atom_texts,
    )


def _too_many_pairs(model: Model, lowered: LoweredParts) -> Iterator[Diagnostic]:
    """Priorities over so many classes that listing all ordered pairs would take too long."""
    covering = Counter(number for one in model.classes for number in one.pages)
    uncovered = sum(not one.pages for one in model.classes)
    sizes = [
        {"pages": covering[number], "default": uncovered}.get(page_set.kind, len(model.classes))
        for number, page_set in enumerate(model.page_sets)
    ]
    for priority, rule in zip(model.priorities, lowered.priority_rules, strict=True):
        # A priority of pages over themselves divides them: at most half of the classes come before the other half.
        pairs = sum(
            sizes[first] * sizes[then] // (4 if first == then else 1) for first, then in pairwise(priority.chain)
        )
        if pairs > PAIRS_MAX and not priority.shadow:
            yield error(
                rule.constraint.span,
                f"this priority orders {pairs:,} pairs of classes; at most {PAIRS_MAX:,} are allowed",
                "too many rules divide these pages into classes",
            )


def _model(lowered: LoweredParts) -> Model:
    atoms, classes = partition(lowered)
    return Model(
        lowered.settings,
        lowered.page_sets,
        tuple(atoms),
        tuple(lowered.constraints),
        tuple(lowered.priorities),
        tuple(classes),
    )
