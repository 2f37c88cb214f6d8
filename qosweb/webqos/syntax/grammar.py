"""Grammar of one statement, in pyparsing. ``docs/reference/webqos.md`` has it in BNF.

The first token decides between alternatives, so parsing takes linear time. After that a failure is final (the operator
``-``), and its position is that of the user's mistake.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyparsing import (
    Empty,
    FollowedBy,
    Forward,
    Literal,
    MatchFirst,
    Opt,
    ParseBaseException,
    ParserElement,
    ParseResults,
    Regex,
    StringEnd,
    ZeroOrMore,
)

from qosweb.webqos.syntax import parse_actions, tree
from qosweb.webqos.syntax.parse_errors import SHOWN_MAX, ParseError, explain
from qosweb.webqos.syntax.positions import Span
from qosweb.webqos.syntax.reserved_words import RESERVED, SUBJECTS, WITH_ARGUMENT
from qosweb.webqos.syntax.scanner import arrow_in, open_quote_in, single_quote_in

if TYPE_CHECKING:
    from collections.abc import Callable

_WORD = r"[A-Za-z_][A-Za-z0-9_-]*"
_BARE = r'(?:[^\s()",|=<>!;.*]|\.(?!\.))+'
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LOOKS_LIKE_VALUE = re.compile(rf"(?=\S*[:./]){_BARE}")  # www.commerce.com, fd00::/8


class Grammar:
    """Parses one statement at a time. Spans are offsets into the whole text."""

    def __init__(self) -> None:
        self._base = 0
        pages, pages_primary = self._pages()
        condition = self._condition(pages)
        end = StringEnd().set_name("the end of the statement")
        alias = Opt(self._keyword("as").suppress() - self._name("a name for the class"))
        self._set = self._set_statement() - end
        self._let_head = self._let_statement()
        self._let_pages = pages - end
        self._let_value = self._bare("a value") - end
        self._let_condition = condition - StringEnd().set_name("'and', 'or' or the end of the statement")
        self._when = condition - StringEnd().set_name("'and', 'or' or '=>'")
        self._rule = self._constraint(pages, pages_primary) - alias.set_parse_action(parse_actions.listed) - end
        for element in (
            self._set, self._let_head, self._let_pages, self._let_value, self._let_condition, self._when, self._rule,
        ):  # fmt: skip
            element.parse_with_tabs()

    def statement(self, text: str, base: int) -> tree.Statement:
        """Parse the statement ``text``, which starts at offset ``base``. Raises ParseError."""
        self._base = base
        span = Span(base, base + len(text))
        first = _first_word(text)
        if (quote := open_quote_in(text)) >= 0:
            raise ParseError(Span(base + quote, base + len(text)), "the quoted text has no end", "a '\"' is missing")
        if (single := single_quote_in(text)) is not None:
            written = single[0][1:] if single[1] is None else single[1]
            hint = f'write "{written}"' if len(written) <= SHOWN_MAX else "write it in double quotes"
            raise ParseError(Span(base + single.start(), base + single.end()), "a text stands in double quotes", hint)
        if first == "set":
            name, value = self._read(self._set, text, 0)
            return tree.Set(span, name, value)
        if first == "let":
            return self._let(text, span)
        return self._rule_statement(text, span)

    def _let(self, text: str, span: Span) -> tree.Let:
        name, _ = self._read(self._let_head, text, 0)
        at = text.index("=") + 1
        body = text[at:].strip()
        within = body.lstrip("( \t")
        if not body:
            element = self._let_value
        elif within[:1] in ("<", "|") or "|" in body or _first_word(within) in ("links", "default", "all"):
            element = self._let_pages
        elif body[:1].isdigit() or body[:1] in '.+-"' or _LOOKS_LIKE_VALUE.fullmatch(body):
            element = self._let_value
        else:
            element = self._let_condition
        return tree.Let(span, name, self._read(element, text, at)[0])

    def _rule_statement(self, text: str, span: Span) -> tree.Rule:
        shadow = None
        at = 0
        if _first_word(text) == "shadow":
            shadow = tree.Name(Span(self._base, self._base + 6), "shadow")
            at = 6
        condition = None
        arrow = arrow_in(text)
        if arrow >= 0:
            condition = self._read(self._when, text, at, arrow)[0]
            at = arrow + 2
        constraint, alias = self._read(self._rule, text, at)
        return tree.Rule(span, constraint, condition, shadow, alias[0] if alias else None)

    def _read(self, element: ParserElement, text: str, start: int, end: int | None = None) -> Any:
        part = text[start:end]
        base = self._base
        self._base = base + start
        try:
            return element.parse_string(part)
        except ParseBaseException as failure:
            explain(failure.msg, part, failure.loc, base + start, before_arrow=end is not None)
        except RecursionError:
            raise ParseError(Span(base, base + 1), "the statement is nested too deeply", "") from None
        finally:
            self._base = base

    # Tokens

    def _token(self, pattern: str, name: str, make: Callable[[Span, str], Any]) -> ParserElement:
        def action(_: str, at: int, tokens: ParseResults) -> Any:
            text = tokens[0]
            return make(Span(self._base + at, self._base + at + len(text)), text)

        return Regex(pattern).set_name(name).set_parse_action(action)

    def _name(self, what: str) -> ParserElement:
        return self._token(rf"{_WORD}(?![\w.:/])", what, tree.Name)

    def _keyword(self, word: str) -> ParserElement:
        return self._token(rf"{word}(?![\w-])", f"'{word}'", tree.Name)

    def _sign(self, sign: str) -> ParserElement:
        return Literal(sign).set_name(f"'{sign}'").suppress()

    def _bare(self, what: str) -> ParserElement:
        def make(span: Span, text: str) -> tree.Literal:
            if text[0] == '"':
                return tree.Literal(span, parse_actions.unquote(text), quoted=True)
            return tree.Literal(span, text)

        return self._token(f"{_QUOTED}|{_BARE}", what, make)

    def _quoted(self, what: str) -> ParserElement:
        return self._token(
            _QUOTED, what, lambda span, text: tree.Literal(span, parse_actions.unquote(text), quoted=True)
        )

    # Parts

    def _pages(self) -> tuple[ParserElement, ParserElement]:
        pages = Forward()
        pages.set_name("pages")
        pattern = self._token(r"<[^<>\s#\"]*>", "a pattern", lambda span, text: tree.Pattern(span, text[1:-1]))
        taken = "|".join(sorted(RESERVED - {"default", "all"}))
        name = self._token(rf"(?!(?:{taken})(?![\w-])){_WORD}", "a name", tree.PageName)
        links = self._keyword("links") + self._sign("(") - pages - self._closing()
        links.set_parse_action(lambda _s, _at, found: tree.LinkedPages(found[0].span.to(found[2]), found[1]))
        group = (self._opening() - pages - self._closing()).set_parse_action(parse_actions.in_parentheses)
        primary = MatchFirst([pattern, links, group, name]).set_name("pages such as </shop> or a name")
        union = primary + ZeroOrMore(self._sign("|") - primary)
        union.set_parse_action(
            lambda _s, _at, found: (
                found[0] if len(found) == 1 else tree.Union(found[0].span.to(found[-1].span), tuple(found))
            )
        )
        pages <<= union
        return pages, primary

    def _opening(self) -> ParserElement:
        return self._token(r"\(", "'('", lambda span, _: span)

    def _closing(self) -> ParserElement:
        return self._token(r"\)", "')'", lambda span, _: span)

    def _set_statement(self) -> ParserElement:
        value = self._bare("a value")
        channel = value + Opt(self._keyword("in").suppress() - self._bare("a time such as 250ms"))
        channel.set_parse_action(parse_actions.value_or_channel)
        return self._keyword("set").suppress() - self._name("the name of a setting") - self._sign("=") - channel

    def _let_statement(self) -> ParserElement:
        rest = Regex(r".*").set_name("a value")
        return self._keyword("let").suppress() - self._name("a name") - self._sign("=") - rest

    def _condition(self, pages: ParserElement) -> ParserElement:
        condition = Forward()
        condition.set_name("a condition")
        accessed = (
            Opt(self._keyword("client") + FollowedBy(Regex("accessed")))
            + self._keyword("accessed")
            + self._sign("(")
            - pages
            - self._sign(")")
            - self._keyword("within").suppress()
            - self._bare("a time such as 30s")
        )
        accessed.set_parse_action(
            lambda _s, _at, found: tree.Accessed(
                found[0].span.to(found[-1].span), found[-2], found[-1], by_client=found[0].text == "client"
            )
        )
        group = (self._opening() - condition - self._closing()).set_parse_action(parse_actions.in_parentheses)
        primary = MatchFirst([group, accessed, self._test(), self._reference()]).set_name("a condition")
        negated = ZeroOrMore(self._keyword("not")) + primary
        negated.set_parse_action(parse_actions.negate)
        both = negated + ZeroOrMore(self._keyword("and").suppress() - negated)
        both.set_parse_action(parse_actions.gather(tree.And))
        either = both + ZeroOrMore(self._keyword("or").suppress() - both)
        either.set_parse_action(parse_actions.gather(tree.Or))
        condition <<= either
        return condition

    def _reference(self) -> ParserElement:
        taken = "|".join((*SUBJECTS, *WITH_ARGUMENT, "and", "or", "not", "in", "accessed"))
        return self._token(rf"(?!(?:{taken})(?![\w-])){_WORD}", "the name of a condition", tree.Reference)

    def _test(self) -> ParserElement:
        plain = self._token(
            rf"(?:{'|'.join(SUBJECTS)})(?![\w-])", "an attribute", lambda span, text: tree.Subject(span, text)
        )
        named = (
            self._token(rf"(?:{'|'.join(WITH_ARGUMENT)})(?![\w-])", "an attribute", tree.Name)
            - self._sign("(")
            - self._quoted('a name in quotes such as "User-Agent"')
            - self._closing()
        )
        named.set_parse_action(lambda _s, _at, found: tree.Subject(found[0].span.to(found[2]), found[0].text, found[1]))
        op = self._token(r"<=|>=|!=|<(?!>)|>|=(?![=><])", "a comparison", tree.Name)
        value = self._bare("a value")
        item = value + Opt(self._sign("..") - self._bare("the end of the range"))
        item.set_parse_action(parse_actions.value_or_range)
        items = MatchFirst([self._sign("(") - item + ZeroOrMore(self._sign(",") - item) - self._sign(")"), item])
        comparison = op - value
        membership = self._keyword("in") - items.set_name("values such as 22:00..06:00 or (GET, HEAD)")
        likeness = self._keyword("like") - self._quoted('a text with * such as "*bot*"')
        tail = MatchFirst([comparison, membership, likeness]).set_name("a comparison, 'in' or 'like'")
        test = MatchFirst([plain - tail, named + Opt(tail)])
        test.set_parse_action(parse_actions.test_node)
        return test

    def _constraint(self, pages: ParserElement, primary: ParserElement) -> ParserElement:
        attribute = self._token(_WORD, "an attribute such as server_resource", tree.Name)
        # A name stands for pages only if an attribute follows; otherwise it is a value.
        term = FollowedBy(Regex(r"[<(]|links\s*\(|[\w-]+\s*\.")) + primary + self._sign(".") - attribute
        term.set_parse_action(lambda _s, _at, found: tree.Term(found[0].span.to(found[1].span), found[0], found[1]))
        op = self._token(r"<=|>=|<(?!>)|>|=(?![=><])", "'=', '<' or '>'", tree.Name)
        number = self._token(r"[0-9.][^\s()\",|=<>!;*]*", "a value", tree.Literal)
        word = self._token(rf"{_WORD}(?![\w.(])", "a value", tree.Name)
        star = self._sign("*")
        nodes, capacity = self._keyword("nodes"), self._keyword("capacity")
        nodes_first = nodes + star - number
        nodes_first.set_parse_action(
            lambda _s, _at, found: tree.Amount(found[0].span.to(found[1].span), found[1], found[0])
        )
        scale = MatchFirst([nodes, term]).set_name("'nodes' or pages such as </free>.server_resource")
        amount = MatchFirst([number, word]) + Opt(
            MatchFirst(
                [
                    star - scale,
                    self._keyword("of").suppress() - capacity,
                    self._keyword("in").suppress() - self._bare("a time such as 250ms"),
                ]
            )
        )
        amount.set_parse_action(parse_actions.amount)
        relative = (Empty() + term).set_parse_action(
            lambda _s, _at, found: tree.Relative(found[0].span, None, found[0])
        )
        of_response = (
            self._token(r"response_header(?=\s*\()", "a value", tree.Name)
            - self._sign("(")
            - self._quoted('a name in quotes such as "X-Cost"')
            - self._closing()
        )
        of_response.set_parse_action(lambda _s, _at, found: tree.ResponseHeader(found[0].span.to(found[2]), found[1]))
        value = MatchFirst([nodes_first, of_response, amount, relative]).set_name("a value")
        bound = self._sign(".") - attribute - op - value - Opt(self._keyword("hard"))
        chain = self._keyword("before") - pages + ZeroOrMore(self._keyword("before").suppress() - pages)
        tail = MatchFirst([bound, chain]).set_name("'.' with an attribute, or 'before'")
        constraint = primary - tail
        constraint.set_parse_action(parse_actions.constraint_node)
        return constraint


def _first_word(text: str) -> str:
    end = 0
    while end < len(text) and (text[end].isalnum() or text[end] in "_-"):
        end += 1
    return text[:end]
