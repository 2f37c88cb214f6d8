"""Everything that can be said against a specification, in one call."""

from qosweb.webqos.model.build import Built, build
from qosweb.webqos.syntax.diagnostics import Diagnostic, in_order
from qosweb.webqos.syntax.places import Source


def check_source(source: Source) -> list[Diagnostic]:
    return check_built(build(source))


def check_built(built: Built) -> list[Diagnostic]:
    return in_order(built.found)
