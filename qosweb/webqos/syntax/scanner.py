"""Scanner: splits source text into statements and comments, in linear time, and enforces size limits.

A statement ends at the end of its line or at ';'. A comment extends from '#' to the end of its line. Both characters
are ordinary within quotes, and ';' also within a pattern. The limits protect the slower stages that follow.
"""

import re
from dataclasses import dataclass

from qosweb.webqos.syntax.diagnostics import Diagnostic, error
from qosweb.webqos.syntax.positions import Source, Span
from qosweb.webqos.syntax.tree import Comment

TEXT_MAX = 4 << 20
LINES_MAX = 50_000
STATEMENT_MAX = 4_000
STATEMENTS_MAX = 10_000
DEPTH_MAX = 16

_PIECE = re.compile(r'"(?:[^"\\\n]|\\.)*"?|<[^<>\s#"]*>|#[^\n]*|;|\r?\n|[()]|[^"<#;\r\n()]+|[<\r]')
_SINGLE_QUOTED = re.compile(r"(?<![^\s=<>!,(|.])'(?:([^'\n]*)'|\S*)")


@dataclass(frozen=True, slots=True)
class ScannedText:
    """The spans of statements, the comments, and the errors found so far."""

    statements: list[Span]
    comments: list[Comment]
    errors: list[Diagnostic]


def too_large(source: Source) -> Diagnostic | None:
    """The error of a text beyond the size limits, else None."""
    start = Span(0, 0)
    if len(source.text) > TEXT_MAX:
        return error(
            start,
            f"the file is too large: {len(source.text):,} characters, {TEXT_MAX:,} are allowed",
            "is this a specification? a pattern may cover many pages: </shop/**>",
        )
    lines = source.text.count("\n") + 1
    if lines > LINES_MAX:
        return error(
            start,
            f"the file is too long: {lines:,} lines, {LINES_MAX:,} are allowed",
            "is this a specification? a pattern may cover many pages: </shop/**>",
        )
    return None


def scan(source: Source) -> ScannedText:
    found = ScannedText([], [], [])
    if (refusal := too_large(source)) is not None:
        found.errors.append(refusal)
        return found
    start, depth, deepest = 0, 0, -1
    on_line = False
    for match in _PIECE.finditer(source.text):
        first = match[0][0]
        if first == "(":
            depth += 1
            if depth > DEPTH_MAX and deepest < 0:
                deepest = match.start()
        elif first == ")":
            depth -= 1
        if first in "#;\n" or match[0] == "\r\n":
            _end_statement(source, found, start, match.start(), deepest)
            start, depth, deepest = match.end(), 0, -1
            if first == "#":
                text = match[0].rstrip()
                span = Span(match.start(), match.start() + len(text))
                found.comments.append(Comment(span, text, trailing=on_line))
        on_line = first not in "\r\n" and (on_line or bool(match[0].strip(" \t;\ufeff")))
    _end_statement(source, found, start, len(source.text), deepest)
    if len(found.statements) > STATEMENTS_MAX:
        first_too_many = found.statements[STATEMENTS_MAX]
        found.errors.append(
            error(
                Span(first_too_many.start, first_too_many.start + 1),
                f"too many statements: {len(found.statements):,}, {STATEMENTS_MAX:,} are allowed",
                "a pattern may cover many pages: </shop/**>",
            )
        )
        del found.statements[STATEMENTS_MAX:]
    return found


def _end_statement(source: Source, found: ScannedText, start: int, end: int, deepest: int) -> None:
    text = source.text[start:end]
    stripped = text.strip(" \t\r\ufeff")
    if not stripped:
        return
    start += text.index(stripped)
    span = Span(start, start + len(stripped))
    if deepest >= 0:
        found.errors.append(
            error(
                Span(deepest, deepest + 1),
                f"parentheses are nested more than {DEPTH_MAX} deep",
                "give the inner parts names with 'let'",
            )
        )
    elif len(stripped) > STATEMENT_MAX:
        found.errors.append(
            error(
                Span(start, start + 1),
                f"the statement is too long: {len(stripped):,} characters, {STATEMENT_MAX:,} are allowed",
                "give its parts names with 'let'",
            )
        )
    else:
        found.statements.append(span)


def open_quote_in(text: str) -> int:
    """The start of a quoted text without an end; -1 if there is none."""
    for match in _PIECE.finditer(text):
        if match[0][0] == '"' and (len(match[0]) == 1 or match[0][-1] != '"'):
            return match.start()
    return -1


def single_quote_in(text: str) -> re.Match[str] | None:
    """The first text in single quotes, where a value or a name would start; None if there is none."""
    for match in _PIECE.finditer(text):
        if match[0][0] not in '"<#' and (found := _SINGLE_QUOTED.search(text, match.start(), match.end())):
            return found
    return None


def arrow_in(text: str) -> int:
    """The position of '=>' in a statement; -1 if it has none."""
    for match in _PIECE.finditer(text):
        if match[0][0] not in '"<#' and (at := match[0].find("=>")) >= 0 and not (at > 0 and match[0][at - 1] in "=!"):
            return match.start() + at
    return -1
