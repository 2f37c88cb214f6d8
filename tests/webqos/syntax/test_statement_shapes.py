"""The parse cache gives the same result as the grammar: the same tree, spans and errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st

from qosweb.webqos.syntax import tree
from qosweb.webqos.syntax.grammar import Grammar
from qosweb.webqos.syntax.parse_errors import ParseError
from qosweb.webqos.syntax.positions import Source
from qosweb.webqos.syntax.printer import print_statement
from qosweb.webqos.syntax.scanner import scan
from qosweb.webqos.syntax.statement_shapes import Shapes, shape_of
from tests.webqos.syntax.test_roundtrip import RULES

if TYPE_CHECKING:
    from qosweb.webqos.syntax.diagnostics import Diagnostic

SPECS = Path(__file__).parents[3] / "webqos_specs"
BAD_INPUTS = Path(__file__).parents[1] / "bad_inputs.txt"
GRAMMAR = Grammar()
WORDS = (
    "</a/b1>", "<>", "<*.jpg>", "<5=>", "<p>", "shop", "shop2", "p", "default", "all", "links", "(", ")", "|", ".",
    "..", "server_resource", "num_bytes", "available", "<", ">", "=", "<=", ">=", "=>", "!=", "*", ",", "5", "0", "10%",
    "1.5", "2MB/s", "22:00", "10.0.0.0/8", "always", "nodes", "of", "capacity", "in", "hard", "as", "before", "shadow",
    "set", "let", "and", "or", "not", "time", "size", "client", "header", "cookie", "accessed", "within", "30s", "like",
    '"x"', '"a|b=>c"', '"<p>"', '"\\""', '"', "é", "٣", "-", "\t",
)  # fmt: skip


def outcome(read: Grammar | Shapes, text: str, base: int) -> tree.Statement | Diagnostic:
    try:
        return read.statement(text, base)
    except ParseError as trouble:
        return trouble.diagnostic


def sibling(text: str) -> str:
    """Another text of the same shape."""
    return re.sub(
        r'"(?:[^"\\\n]|\\.)*"|<[^<>\s#"]*>|[0-9]+',
        lambda found: {'"': '"other text"', "<": "</an/other>"}.get(found[0][0], "1234"),
        text,
    )


def agree(text: str) -> None:
    shapes = Shapes(GRAMMAR)
    outcome(shapes, sibling(text), 3)
    assert shape_of(sibling(text))[0] == shape_of(text)[0]
    assert outcome(shapes, text, 70) == outcome(GRAMMAR, text, 70)


@settings(max_examples=300)
@given(RULES)
def test_rules(rule: tree.Rule) -> None:
    agree(print_statement(rule))


@settings(max_examples=1000)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), st.sampled_from(["", " "]))
@example(["load", "<5=>", "</a/b1>", ".", "num_bytes", "<", "5"], "")
@example(["</a/b1>", ".", "num_bytes", "<", "5", "as", "shop2"], " ")
@example(["size", "<", "5", "=>", "all", ".", "num_bytes", "<p>"], " ")
def test_words_in_any_order(words: list[str], between: str) -> None:
    for statement in _statements(between.join(words)):
        agree(statement)


@settings(max_examples=500)
@given(RULES, st.data())
def test_rules_with_a_mistake(rule: tree.Rule, data: st.DataObject) -> None:
    text = print_statement(rule)
    at = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 3))
    for statement in _statements(text[:at] + data.draw(st.sampled_from(["", *WORDS])) + text[at + gone :]):
        agree(statement)


def test_all_specifications_in_the_repository() -> None:
    texts = [path.read_text() for path in (*sorted(SPECS.rglob("*.webqos")), BAD_INPUTS)]
    statements = [statement for text in texts for statement in _statements(text)]
    assert len(statements) > 300
    for statement in statements:
        agree(statement)


def test_a_shape_is_parsed_once() -> None:
    read: list[str] = []

    class Counting(Grammar):
        def statement(self, text: str, base: int) -> tree.Statement:
            read.append(text)
            return super().statement(text, base)

    shapes = Shapes(Counting())
    for number in range(20):
        rule = shapes.statement(f"</page{number}>.num_bytes < {number}", number)
        assert isinstance(rule, tree.Rule)
    assert read == ["<p>.num_bytes < 0"]


def _statements(text: str) -> list[str]:
    source = Source("test", text)
    return [source.cut(span) for span in scan(source).statements]
