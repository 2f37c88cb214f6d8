"""Runs all checks on a compiled specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.check.conditions import check_conditions, check_texts
from qosweb.webqos.check.contradictions import check_contradictions
from qosweb.webqos.check.patterns import check_patterns
from qosweb.webqos.check.surprises import check_surprises
from qosweb.webqos.syntax.diagnostics import Diagnostic, in_order

if TYPE_CHECKING:
    from qosweb.webqos.specification import Specification


def check_built(built: Specification) -> list[Diagnostic]:
    """All diagnostics by position. Rules are checked against each other only if each of them compiles."""
    found = list(built.diagnostics)
    if built.model is not None:
        found += check_conditions(built, built.model)
        found += check_texts(built.model)
        found += check_patterns(built, built.model)
        found += check_contradictions(built, built.model)
        found += check_surprises(built, built.model)
    return in_order(found)
