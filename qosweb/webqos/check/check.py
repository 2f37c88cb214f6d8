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


def check_specification(policy: Specification) -> list[Diagnostic]:
    """All diagnostics by position. Rules are checked against each other only if each of them compiles."""
    found = list(policy.diagnostics)
    if policy.model is not None:
        found += check_conditions(policy, policy.model)
        found += check_texts(policy.model)
        found += check_patterns(policy, policy.model)
        found += check_contradictions(policy, policy.model)
        found += check_surprises(policy, policy.model)
    return in_order(found)
