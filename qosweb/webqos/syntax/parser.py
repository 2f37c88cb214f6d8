"""Parser: turns source text into a syntax tree. Parses statements one by one, so it reports all errors of a file."""

import re

from qosweb.webqos.syntax.diagnostics import Diagnostic
from qosweb.webqos.syntax.parse_errors import ParseError
from qosweb.webqos.syntax.positions import Source
from qosweb.webqos.syntax.scanner import scan
from qosweb.webqos.syntax.tree import Statement, Tree

_LET = re.compile(r"let\s+([A-Za-z_][\w-]*)")
ERRORS_MAX = 1_000  # beyond this, the file is not a specification


def parse(source: Source) -> tuple[Tree, list[Diagnostic]]:
    """The statements that could be parsed, and the errors of the others."""
    pieces = scan(source)
    if not pieces.statements:  # such as the policy of a node without a specification: pyparsing is not imported
        return Tree((), tuple(pieces.comments), frozenset()), list(pieces.errors)
    from qosweb.webqos.syntax.grammar import Grammar

    grammar = Grammar()
    errors = list(pieces.errors)
    statements: list[Statement] = []
    unread: set[str] = set()
    for span in pieces.statements:
        try:
            statements.append(grammar.statement(source.cut(span), span.start))
        except ParseError as failure:
            errors.append(failure.diagnostic)
            if (let := _LET.match(source.text, span.start)) is not None:
                unread.add(let[1])
            if len(errors) >= ERRORS_MAX:
                break
    return Tree(tuple(statements), tuple(pieces.comments), frozenset(unread)), errors
