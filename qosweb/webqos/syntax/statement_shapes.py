"""Parse cache: rules that differ only in patterns, numbers and quoted texts are parsed by the grammar once.

The grammar does not depend on the content of these three: a pattern is any text between brackets, a quoted text any
text between quotes, and all digits are equivalent. So the *shape* of a rule, with fillers in their places, has the same
tree as the rule, except for spans and the texts of leaves; both are then taken from the rule's text. There is no second
grammar: a new shape, or one with errors, goes to the grammar.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from qosweb.webqos.syntax import parse_actions, tree
from qosweb.webqos.syntax.parse_errors import ParseError
from qosweb.webqos.syntax.positions import Span

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.webqos.syntax.grammar import Grammar

    Shift = list[int]  # length of the text minus length of its shape, after each filler
    Make = Callable[[str, int, Shift], Any]

_VARIABLE = re.compile(r'"(?:[^"\\\n]|\\.)*"|<[^<>\s#"]*>|[0-9]+')
_FILLER = {'"': '"q"', "<": "<p>"}
_DIGIT = "0"
_NOT_A_RULE = re.compile(r"(?:set|let)(?![\w-])")


class _NotReusable(Exception):
    """The text of a leaf differs from the source text at its span."""


class Shapes:
    """The shapes of one specification, each with a function that builds its tree; None if that is impossible."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._known: dict[str, Make | None] = {}

    def statement(self, text: str, base: int) -> tree.Statement:
        """Parse a statement, from the cache if possible. Raises ParseError."""
        if _NOT_A_RULE.match(text):
            return self._grammar.statement(text, base)
        shape, ends, shift = shape_of(text)
        if shape in self._known:
            make = self._known[shape]
        else:
            make = self._known[shape] = self._read(shape, ends)
        if make is None:
            return self._grammar.statement(text, base)
        made: tree.Statement = make(text, base, shift)
        return made

    def _read(self, shape: str, ends: list[int]) -> Make | None:
        try:
            return _maker(self._grammar.statement(shape, 0), shape, ends)
        except (ParseError, _NotReusable):
            return None


def shape_of(text: str) -> tuple[str, list[int], Shift]:
    """The shape of a text, the ends of the fillers in it, and the shift after each of them."""
    parts: list[str] = []
    ends: list[int] = []
    shift = [0]
    at = length = 0
    for match in _VARIABLE.finditer(text):
        start, end = match.span()
        filler = _FILLER.get(text[start], _DIGIT)
        parts += (text[at:start], filler)
        length += start - at + len(filler)
        ends.append(length)
        shift.append(end - length)
        at = end
    parts.append(text[at:])
    return "".join(parts), ends, shift


def _maker(node: tree.TreeNode, shape: str, ends: list[int]) -> Make:
    """A function that builds such a node from a text of this shape."""
    start, end = node.span.start, node.span.end
    # A position at the end of a filler comes after it.
    after_start, after_end = bisect_right(ends, start), bisect_right(ends, end)
    kind: Callable[..., Any] = type(node)
    written = shape[start:end]
    values = [getattr(node, field.name) for field in fields(node) if field.name != "span"]
    makes = [_field(value, node, written, shape, ends) for value in values]

    def make(text: str, base: int, shift: Shift) -> Any:
        here = Span(base + start + shift[after_start], base + end + shift[after_end])
        return kind(here, *[part(text[here.start - base : here.end - base], base, shift) for part in makes])

    def make_with_parts(text: str, base: int, shift: Shift) -> Any:
        here = Span(base + start + shift[after_start], base + end + shift[after_end])
        return kind(here, *[part(text, base, shift) for part in makes])

    return make_with_parts if any(isinstance(value, tree.TreeNode | tuple) for value in values) else make


def _field(value: object, node: tree.TreeNode, written: str, shape: str, ends: list[int]) -> Make:
    if isinstance(value, tree.TreeNode):
        return _maker(value, shape, ends)
    if isinstance(value, tuple):
        makers = [_maker(one, shape, ends) for one in value]
        return lambda text, base, shift: tuple([make(text, base, shift) for make in makers])
    if not isinstance(value, str):
        return lambda _text, _base, _shift: value
    if isinstance(node, tree.Pattern):
        return lambda text, _base, _shift: text[1:-1]
    if isinstance(node, tree.Literal) and node.quoted:
        return lambda text, _base, _shift: parse_actions.unquote(text)
    if value == written:
        return lambda text, _base, _shift: text
    if _VARIABLE.search(value):
        raise _NotReusable
    return lambda _text, _base, _shift: value
