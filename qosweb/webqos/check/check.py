"""Everything that can be said against a specification, in one call."""

from qosweb.webqos.check.conditions import check_conditions, check_texts
from qosweb.webqos.check.contradictions import check_contradictions
from qosweb.webqos.check.patterns import check_patterns
from qosweb.webqos.check.surprises import check_surprises
from qosweb.webqos.model.build import Built, build
from qosweb.webqos.syntax.diagnostics import Diagnostic, in_order
from qosweb.webqos.syntax.positions import Source


def check_source(source: Source) -> list[Diagnostic]:
    return check_built(build(source))


def check_built(built: Built) -> list[Diagnostic]:
    """Words first; what they mean together only if every word means something."""
    found = list(built.found)
    if built.model is not None:
        found += check_conditions(built, built.model)
        found += check_texts(built.model)
        found += check_patterns(built, built.model)
        found += check_contradictions(built, built.model)
        found += check_surprises(built, built.model)
    return in_order(found)
