"""The TextMate grammar agrees with the parser on every specification in the repository."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from qosweb.webqos.model.attributes import ATTRIBUTES
from qosweb.webqos.model.scope import SETTINGS
from qosweb.webqos.syntax import tree
from qosweb.webqos.syntax.parser import parse
from qosweb.webqos.syntax.positions import Source, Span
from qosweb.webqos.syntax.reserved_words import RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterator

SPECS = Path(__file__).parents[3] / "webqos_specs"
GRAMMAR = json.loads((SPECS / "webqos.tmLanguage.json").read_text("utf-8"))
EXAMPLES = re.findall(
    r"```webqos\n(.*?)```", (SPECS.parent / "docs" / "reference" / "webqos.md").read_text("utf-8"), re.DOTALL
)
NASTY = """\
let a = </x>; let b = header("X;#<y>") like "\\"*#*" # <no> "pattern"
shadow a and size>1MB or not(b)=><www.x.com/a%20b>.server_resource<=.5 hard as time-out
client in (::1, fd00::/8, 10.0.0.0/8) and time in 22:00..06:00 => links(a).num_bytes < 2MB/s
"""
TEXTS = [*(path.read_text("utf-8") for path in sorted(SPECS.rglob("*.webqos"))), *EXAMPLES, NASTY]


def expressions() -> list[str]:
    return [rule[key] for rule in GRAMMAR["repository"].values() for key in ("match", "begin", "end") if key in rule]


def test_every_expression_compiles() -> None:
    for expression in expressions():
        re.compile(expression)
    assert {f"#{name}" for name in GRAMMAR["repository"]} == {rule["include"] for rule in GRAMMAR["patterns"]}


def test_every_word_is_known() -> None:
    known = set(re.findall(r"[a-z_]{2,}", " ".join(expressions())))
    assert RESERVED | set(ATTRIBUTES) <= known


def coloured(text: str) -> list[str]:
    """The scope of every character, as editors find it: line by line, the leftmost match, then the first listed."""
    rules = [GRAMMAR["repository"][one["include"][1:]] for one in GRAMMAR["patterns"]]
    scopes: list[str] = []
    for line in text.splitlines(keepends=True):
        of_line = [""] * len(line)
        at = 0
        while at < len(line):
            found = [
                (m, rule) for rule in rules if (m := re.compile(rule.get("match") or rule["begin"]).search(line, at))
            ]
            if not found:
                break
            match, rule = min(found, key=lambda pair: pair[0].start())
            end = match.end()
            if "begin" in rule:
                inner = re.compile(f"{rule['patterns'][0]['match']}|({rule['end']})")
                close = next(m for m in inner.finditer(line, end) if m[1] is not None)
                end = close.end()
            of_line[match.start() : end] = [rule.get("name", "")] * (end - match.start())
            for group, capture in rule.get("captures", {}).items():
                first, last = match.span(int(group))
                of_line[first:last] = [capture["name"]] * (last - first)
            at = max(end, at + 1)
        scopes += of_line
    return scopes


def expected(node: Any) -> Iterator[tuple[Span, str]]:
    """Places, and the beginning of the scope that they should have."""
    match node:
        case tree.Comment(span=span):
            yield span, "comment"
        case tree.Pattern(span=span):
            yield span, "string.unquoted.pattern"
        case tree.Literal(span=span, quoted=True):
            yield span, "string.quoted"
        case tree.Literal(span=span, text=text) if text[0].isdigit() or text[0] in ".:":
            yield span, "constant.numeric"
        case tree.Subject(span=span, name=name):
            yield Span(span.start, span.start + len(name)), "support.variable"
        case tree.Set(name=name) | tree.Let(name=name):
            yield name.span, "entity.name"
        case tree.Rule(shadow=shadow) if shadow is not None:
            yield shadow.span, "keyword.control"
        case tree.Bound(hard=hard) if hard is not None:
            yield hard.span, "keyword.control"
        case tree.Term(attribute=attribute):
            yield attribute.span, "variable.other.property"
        case tree.Amount(value=tree.Name(span=span, text=text)) if text in RESERVED:
            yield span, "constant.language"
    if isinstance(node, tuple):
        for item in node:
            yield from expected(item)
    elif dataclasses.is_dataclass(node):
        for one in dataclasses.fields(node):
            yield from expected(getattr(node, one.name))


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.splitlines()[0][:40])
def test_an_editor_colours_every_token(text: str) -> None:
    source = Source("test", text)
    parsed, found = parse(source)
    assert not found
    scopes = coloured(text)
    for span, scope in (*expected(parsed.statements), *expected(parsed.comments)):
        shown = {scopes[at] for at in range(span.start, span.end)}
        assert all(one.startswith(scope) for one in shown), f"{source.cut(span)} of {scope} is {shown}"


def test_settings_are_coloured_like_names() -> None:
    for name in SETTINGS:
        assert coloured(f"set {name} = 1")[4 : 4 + len(name)] == ["entity.name.type.webqos"] * len(name)
