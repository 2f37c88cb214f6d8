"""From text to model in one call, with everything that is wrong on the way and where each rule stands."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from qosweb.webqos.model.lower import Lowered, lower
from qosweb.webqos.model.model import Model
from qosweb.webqos.model.partition import TooManyClasses, partition
from qosweb.webqos.syntax.diagnostics import Diagnostic, error, has_errors
from qosweb.webqos.syntax.parser import parse
from qosweb.webqos.syntax.positions import Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qosweb.webqos.patterns import PagePattern
    from qosweb.webqos.syntax import tree

PAIRS_MAX = 300_000  # of classes, in one order of priority


@dataclass(frozen=True, slots=True)
class Built:
    """``model`` is there if nothing is wrong. The rules of its constraints and priorities are in their order."""

    source: Source
    parsed: tree.Tree
    model: Model | None
    found: list[Diagnostic]
    constraint_rules: Sequence[tree.Rule] = ()
    priority_rules: Sequence[tree.Rule] = ()
    page_places: Sequence[Span] = ()
    pattern_places: Mapping[PagePattern, Span] = field(default_factory=dict)
    atom_texts: Sequence[str] = ()  # those of links are not among them

    def line(self, constraint: int) -> int:
        return self.source.line_of(self.constraint_rules[constraint].span.start)


def build(source: Source, *, bind_shadows: bool = False) -> Built:
    """``bind_shadows``: as if no statement were a shadow."""
    parsed, found = parse(source)
    lowered = lower(parsed, bind_shadows=bind_shadows)
    found += lowered.found
    if has_errors(found):
        return Built(source, parsed, None, found)
    try:
        model = _model(lowered)
    except TooManyClasses as too_many:
        span = lowered.places[too_many.page_set] if too_many.page_set >= 0 else Span(0, 0)
        found.append(error(span, too_many.message, "fewer wildcards or conditions make fewer classes"))
        return Built(source, parsed, None, found)
    found += _too_many_pairs(model, lowered)
    if has_errors(found):
        return Built(source, parsed, None, found)
    return Built(
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


def _too_many_pairs(model: Model, lowered: Lowered) -> Iterator[Diagnostic]:
    """Orders of so many classes that finding out who comes before whom would take too long."""
    covering = Counter(number for one in model.classes for number in one.pages)
    uncovered = sum(not one.pages for one in model.classes)
    sizes = [
        {"pages": covering[number], "default": uncovered}.get(page_set.kind, len(model.classes))
        for number, page_set in enumerate(model.page_sets)
    ]
    for priority, rule in zip(model.priorities, lowered.priority_rules, strict=True):
        # Of the same pages some come before the others: at most half of them before the other half.
        pairs = sum(
            sizes[first] * sizes[then] // (4 if first == then else 1) for first, then in pairwise(priority.chain)
        )
        if pairs > PAIRS_MAX and not priority.shadow:
            yield error(
                rule.constraint.span,
                f"this is an order of {pairs:,} pairs of classes, {PAIRS_MAX:,} are allowed",
                "these pages have too many rules of their own",
            )


def _model(lowered: Lowered) -> Model:
    atoms, classes = partition(lowered)
    return Model(
        lowered.settings,
        lowered.page_sets,
        tuple(atoms),
        tuple(lowered.constraints),
        tuple(lowered.priorities),
        tuple(classes),
    )
