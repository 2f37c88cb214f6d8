"""The TextMate grammar knows every word of the language, and its expressions compile."""

import json
import re
from pathlib import Path

from qosweb.webqos.model.lower import ATTRIBUTES
from qosweb.webqos.syntax.grammar import RESERVED

GRAMMAR = json.loads((Path(__file__).parents[2] / "webqos_specs" / "webqos.tmLanguage.json").read_text("utf-8"))


def expressions() -> list[str]:
    return [rule[key] for rule in GRAMMAR["repository"].values() for key in ("match", "begin", "end") if key in rule]


def test_every_expression_compiles() -> None:
    for expression in expressions():
        re.compile(expression)
    assert {f"#{name}" for name in GRAMMAR["repository"]} == {rule["include"] for rule in GRAMMAR["patterns"]}


def test_every_word_is_known() -> None:
    known = set(re.findall(r"[a-z_]{2,}", " ".join(expressions())))
    assert RESERVED | set(ATTRIBUTES) <= known


def test_what_it_colours() -> None:
    rules = {name: re.compile(rule["match"]) for name, rule in GRAMMAR["repository"].items() if "match" in rule}
    line = "night => <www.x.com/free>.server_resource < 60%  # at night"
    assert rules["pattern"].findall(line) == ["<www.x.com/free>"]
    assert rules["attribute"].findall(line) == ["server_resource"]
    assert rules["comment"].findall(line) == ["# at night"]
    assert rules["value"].findall("time in 22:00..06:00 and client in 10.0.0.0/8") == ["22:00", "06:00", "10.0.0.0/8"]
