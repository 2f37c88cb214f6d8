"""Printing and parsing are inverse, and formatting is idempotent."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from qosweb.webqos.model.build import build
from qosweb.webqos.model.model import decode, digest, encode
from qosweb.webqos.syntax import tree
from qosweb.webqos.syntax.parser import parse
from qosweb.webqos.syntax.positions import Source, Span
from qosweb.webqos.syntax.printer import print_statement, print_tree
from tests.webqos.support import model_of

S = Span(0, 0)


def name(text: str) -> tree.Name:
    return tree.Name(S, text)


def literal(text: str, quoted: bool = False) -> tree.Literal:
    return tree.Literal(S, text, quoted)


PATHS = st.sampled_from(["/a", "/a/b", "/a/*", "/**/c.html", "/d/**", "x", "www.x.com/e", "localhost:80/f", "*.pdf"])
PATTERNS = PATHS.map(lambda text: tree.Pattern(S, text))
PLAIN_SETS = st.one_of(
    PATTERNS,
    st.lists(PATTERNS, min_size=2, max_size=3).map(lambda members: tree.Union(S, tuple(members))),
    st.just(tree.PageName(S, "shop")),
)
PAGES: st.SearchStrategy[tree.Pages] = st.one_of(
    PLAIN_SETS,
    st.sampled_from(["default", "all"]).map(lambda word: tree.PageName(S, word)),
    PLAIN_SETS.map(lambda pages: tree.LinkedPages(S, pages)),
)


def subject(text: str, argument: str | None = None) -> tree.Subject:
    return tree.Subject(S, text, None if argument is None else literal(argument, quoted=True))


SOME_TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cc"]), max_size=8)
TESTS: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        lambda op, value: tree.Compare(S, subject("size"), name(op), literal(value)),
        st.sampled_from(["<", ">", "<=", ">=", "=", "!="]),
        st.sampled_from(["1MB", "512", "16KB"]),
    ),
    st.builds(
        lambda low, high: tree.In(S, subject("time"), (tree.Range(S, literal(low), literal(high)),)),
        st.sampled_from(["22:00", "00:00", "9:30"]),
        st.sampled_from(["06:00", "24:00", "9:31"]),
    ),
    st.lists(st.sampled_from(["10.0.0.0/8", "::1", "192.0.2.1"]), min_size=1, max_size=3, unique=True).map(
        lambda items: tree.In(S, subject("client"), tuple(map(literal, items)))
    ),
    SOME_TEXT.map(lambda text: tree.Compare(S, subject("header", "X-Plan"), name("="), literal(text, quoted=True))),
    SOME_TEXT.map(lambda text: tree.Like(S, subject("cookie", "c"), literal(text + "*", quoted=True))),
    st.just(tree.Has(S, subject("cookie", "member"))),
    st.just(tree.Reference(S, "night")),
    st.builds(lambda pages, by: tree.Accessed(S, pages, literal("30s"), by), PLAIN_SETS, st.booleans()),
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        inner.filter(lambda node: not isinstance(node, tree.Not)).map(lambda item: tree.Not(S, item)),
        several.filter(lambda items: not any(isinstance(item, tree.And) for item in items)).map(
            lambda items: tree.And(S, items)
        ),
        several.filter(lambda items: not any(isinstance(item, tree.Or) for item in items)).map(
            lambda items: tree.Or(S, items)
        ),
    )


CONDITIONS = st.recursive(TESTS, nested, max_leaves=5)


def bound(pages: tree.Pages, attribute: str, op: str, value: tree.Value, hard: bool) -> tree.Bound:
    return tree.Bound(S, tree.Term(S, pages, name(attribute)), name(op), value, name("hard") if hard else None)


def amount(value: str, scale: str | None = None) -> tree.Amount:
    return tree.Amount(S, literal(value), None if scale is None else name(scale))


BOUNDS: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        lambda pages, share: bound(pages, "server_resource", "<", amount(share), True),
        PAGES,
        st.sampled_from(["10%", "0.25"]),
    ),
    st.builds(lambda pages: bound(pages, "num_requests", ">", amount("100", "nodes"), False), PAGES),
    st.builds(lambda pages: bound(pages, "num_bytes", "<", amount("10%", "capacity"), False), PAGES),
    st.builds(lambda pages: bound(pages, "available", "=", tree.Amount(S, name("always")), False), PAGES),
    st.builds(
        lambda pages: bound(pages, "channel", "=", tree.Channel(S, literal("16KB"), literal("50ms")), False), PAGES
    ),
    st.builds(
        lambda pages, other, factor: bound(
            pages,
            "server_resource",
            "=",
            tree.Relative(S, None if factor is None else literal(factor), tree.Term(S, other, name("server_resource"))),
            False,
        ),
        PAGES,
        PAGES,
        st.sampled_from([None, "2", "0.5"]),
    ),
    st.lists(PAGES, min_size=2, max_size=3).map(lambda members: tree.Before(S, tuple(members))),
)
RULES = st.builds(
    lambda constraint, condition, shadow, alias: tree.Rule(
        S, constraint, condition, name("shadow") if shadow else None, None if alias is None else name(alias)
    ),
    BOUNDS,
    st.none() | CONDITIONS,
    st.booleans(),
    st.none() | st.sampled_from(["gold", "class-1"]),
)


def without_places(node: Any) -> Any:
    if isinstance(node, tuple):
        return tuple(map(without_places, node))
    if not dataclasses.is_dataclass(node) or isinstance(node, type | Span):
        return None if isinstance(node, Span) else node
    fields = tuple(without_places(getattr(node, field.name)) for field in dataclasses.fields(node))
    return type(node).__name__, *fields


@given(RULES)
def test_a_printed_rule_parses_to_the_same_tree(rule: tree.Rule) -> None:
    text = print_statement(rule)
    parsed, found = parse(Source("printed", text))
    assert found == [], text
    assert without_places(parsed.statements[0]) == without_places(rule), text
    assert print_statement(parsed.statements[0]) == text


LETS = "let shop = </shop/**> | </cart>\nlet night = time in 22:00..06:00\n"
BLANKS = st.sampled_from(["\n", "\n\n", "\n\n\n", " ; ", "  # a comment\n", "\n# on its own\n", "\r\n", "\n\t \n"])


@given(st.lists(st.tuples(RULES, BLANKS), max_size=6))
def test_formatting_keeps_the_model_and_is_idempotent(pieces: list[tuple[tree.Rule, str]]) -> None:
    text = LETS + "".join(
        print_statement(rule).replace(" ", "  ") + blank for rule, blank in pieces if '"' not in print_statement(rule)
    )
    source = Source("test", text)
    parsed, found = parse(source)
    assert found == []
    once = Source("once", print_tree(source, parsed))
    again, found = parse(once)
    assert found == []
    assert print_tree(once, again) == once.text
    assert [comment.text for comment in again.comments] == [comment.text for comment in parsed.comments]
    assert without_places(again.statements) == without_places(parsed.statements)
    before, after = build(source), build(once)
    assert before.model == after.model
    assert [one.message for one in before.diagnostics] == [one.message for one in after.diagnostics]


@given(st.lists(RULES, max_size=4))
def test_a_model_is_encoded_and_decoded(rules: list[tree.Rule]) -> None:
    built = build(Source("test", LETS + "\n".join(map(print_statement, rules))))
    if built.model is not None:
        assert decode(encode(built.model)) == built.model
        assert digest(decode(encode(built.model))) == digest(built.model)


def test_equal_specifications_have_equal_models() -> None:
    one = model_of("let a = </x>|</y>   # comment\n\na.server_resource>=0.3;   </z>.num_bytes<=2MB/s")
    other = model_of("let a = </x> | </y>\na.server_resource > 0.3\n</z>.num_bytes < 2MB/s\n")
    assert one == other
    assert digest(one) == digest(other)
    assert digest(one) != digest(model_of("let a = </x> | </y>\na.server_resource > 0.31\n</z>.num_bytes < 2MB/s"))


def test_comments_stay_where_they_were() -> None:
    text = "# top\n\n\n\nset lifetime=1s#why\n   # alone\n</a>.available=always ; </b>.available=always   # both\n# end"
    source = Source("x", text)
    assert print_tree(source, parse(source)[0]) == (
        "# top\n\nset lifetime = 1s  #why\n# alone\n</a>.available = always\n</b>.available = always  # both\n# end\n"
    )


def test_redundant_parentheses_have_no_effect() -> None:
    lets = "let a = time > 1:00\nlet b = load > 3\nlet c = nodes > 2\n"
    one = model_of(f"{lets}a and (b and c) or ((a) or b) => </x>.num_bytes < 5")
    other = model_of(f"{lets}a and b and c or a or b => </x>.num_bytes < 5")
    assert one == other


def test_a_comment_after_an_empty_statement_keeps_its_line() -> None:
    source = Source("x", "</a>.available = always\n; # c\n;; # d\n")
    assert print_tree(source, parse(source)[0]) == "</a>.available = always\n# c\n# d\n"
