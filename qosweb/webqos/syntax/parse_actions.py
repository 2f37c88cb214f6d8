"""Parse actions of the grammar: build syntax tree nodes from tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qosweb.webqos.syntax import tree
from qosweb.webqos.syntax.parse_errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyparsing import ParseResults


def unquote(text: str) -> str:
    return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")


def listed(found: ParseResults) -> list[list[Any]]:
    return [list(found)]


def negate(found: ParseResults) -> Any:
    *negations, item = found
    for negation in reversed(negations[-(len(negations) % 2 or 2) :] if negations else []):
        item = tree.Not(negation.span.to(item.span), item)
    return item


def gather(kind: type[tree.And] | type[tree.Or]) -> Callable[[ParseResults], Any]:
    """An action that flattens nested ``and`` or ``or``: ``a and (b and c)`` has three items."""

    def action(found: ParseResults) -> Any:
        if len(found) == 1:
            return found[0]
        items: list[tree.Condition] = []
        for item in found:
            items += item.items if isinstance(item, kind) else (item,)
        return kind(found[0].span.to(found[-1].span), tuple(items))

    return action


def in_parentheses(found: ParseResults) -> Any:
    """Extend the span of a node to its parentheses. The span of a pattern always equals its brackets."""
    opening, inner, closing = found
    return inner if isinstance(inner, tree.Pattern) else replace(inner, span=opening.to(closing))


def value_or_channel(found: ParseResults) -> Any:
    return found[0] if len(found) == 1 else tree.Channel(found[0].span.to(found[1].span), found[0], found[1])


def value_or_range(found: ParseResults) -> Any:
    return found[0] if len(found) == 1 else tree.Range(found[0].span.to(found[1].span), found[0], found[1])


def test_node(found: ParseResults) -> Any:
    subject, *rest = found
    if not rest:
        return tree.Has(subject.span, subject)
    span = subject.span.to(rest[-1].span)
    if rest[0].text == "in":
        return tree.In(span, subject, tuple(rest[1:]))
    if rest[0].text == "like":
        return tree.Like(span, subject, rest[1])
    return tree.Compare(span, subject, rest[0], rest[1])


def amount(found: ParseResults) -> Any:
    value, *rest = found
    if not rest:
        return tree.Amount(value.span, value)
    span = value.span.to(rest[0].span)
    if isinstance(rest[0], tree.Term):
        if isinstance(value, tree.Name):
            raise ParseError(
                value.span, f"expected a number, found '{value.text}'", "such as 2 * </free>.server_resource"
            )
        return tree.Relative(span, value, rest[0])
    if isinstance(rest[0], tree.Literal):
        if isinstance(value, tree.Name):
            raise ParseError(value.span, f"expected a size, found '{value.text}'", "such as 128KB in 250ms")
        return tree.Channel(span, value, rest[0])
    return tree.Amount(span, value, rest[0])


def constraint_node(found: ParseResults) -> Any:
    pages, second, *rest = found
    if second.text == "before" and not isinstance(rest[0], tree.Name):
        return tree.Before(pages.span.to(rest[-1].span), (pages, *rest))
    op, value, *hard = rest
    term = tree.Term(pages.span.to(second.span), pages, second)
    return tree.Bound(pages.span.to(found[-1].span), term, op, value, hard[0] if hard else None)
