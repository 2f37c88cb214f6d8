"""A compiled specification: its model, its diagnostics, and the source position of each rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qosweb.webqos.syntax.diagnostics import Diagnostic, has_errors, render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qosweb.webqos.model.model import Model
    from qosweb.webqos.patterns import PagePattern
    from qosweb.webqos.syntax import tree
    from qosweb.webqos.syntax.positions import Source, Span


@dataclass(frozen=True, slots=True)
class Specification:
    """``model`` is None if there are errors. Rules are in the order of the model's constraints and priorities."""

    source: Source
    parsed: tree.Tree
    model: Model | None
    diagnostics: list[Diagnostic]
    constraint_rules: Sequence[tree.Rule] = ()
    priority_rules: Sequence[tree.Rule] = ()
    page_places: Sequence[Span] = ()
    pattern_places: Mapping[PagePattern, Span] = field(default_factory=dict)
    atom_texts: Sequence[str] = ()  # without the atoms of links

    @property
    def has_errors(self) -> bool:
        return has_errors(self.diagnostics)

    def require_model(self) -> Model:
        """Return the model. Raises ValueError, with the diagnostics as its text, if there is none."""
        if self.model is None:
            raise ValueError(self.render_diagnostics())
        return self.model

    def render_diagnostics(self) -> str:
        """Format all diagnostics for people: place, message, excerpt, hint."""
        return render(self.source, self.diagnostics)

    def line(self, constraint: int) -> int:
        """The line of a constraint, from 1."""
        return self.source.line_of(self.constraint_rules[constraint].span.start)

    def priority_line(self, priority: int) -> int:
        """The line of a priority, from 1."""
        return self.source.line_of(self.priority_rules[priority].span.start)
