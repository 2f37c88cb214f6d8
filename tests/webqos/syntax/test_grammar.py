"""The language reference matches the code: examples compile, the grammar has every keyword, limits are right."""

import json
import re
import shlex
from pathlib import Path

import pytest

from qosweb.cli import main
from qosweb.webqos.model.attributes import ATTRIBUTES
from qosweb.webqos.model.build import PAIRS_MAX
from qosweb.webqos.model.lower_conditions import TESTS_MAX
from qosweb.webqos.model.partition import CLASSES_MAX
from qosweb.webqos.syntax import scanner
from qosweb.webqos.syntax.reserved_words import RESERVED
from tests.webqos.support import found_in

GRAMMAR = (Path(__file__).parents[3] / "docs" / "reference" / "webqos.md").read_text("utf-8")
EXAMPLES = re.findall(r"```webqos\n(.*?)```", GRAMMAR, re.DOTALL)
BNF = re.findall(r"```bnf\n(.*?)```", GRAMMAR, re.DOTALL)[0]
QUESTIONS = [(text, line) for text in EXAMPLES for line in re.findall(r"^#\? (.*)$", text, re.MULTILINE)]


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_has_no_mistakes(text: str) -> None:
    assert found_in(text) == []


@pytest.mark.parametrize(("text", "question"), QUESTIONS)
def test_an_example_has_the_documented_result(
    text: str, question: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, _, answer = question.partition(" -> ")
    name, _, share = answer.partition(" ")
    path = tmp_path / "example.webqos"
    path.write_text(text)
    assert main(["explain", str(path), *shlex.split(asked), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["class"] == name
    if share:
        assert f"{said['share_under_contention'] * 100:.4g}%" == share


def test_the_grammar_has_every_keyword() -> None:
    words = set(re.findall(r'"([a-z][a-z_]+)"', BNF))
    of_values = {"bytes", "requests", "response_header"}  # words only where a cost stands; elsewhere names
    assert words == RESERVED | set(ATTRIBUTES) | of_values


def test_every_rule_of_the_grammar_is_defined_and_used() -> None:
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", " ", BNF)
    defined = re.findall(r"^([a-z]+) +=", bare, re.MULTILINE)
    used = set(re.findall(r"[a-z]+", bare.replace("specification =", "")))
    basic = {"letter", "digit", "character", "newline", "comment", "host", "path"}
    assert len(defined) == len(set(defined))
    assert used - set(defined) == basic
    assert set(defined) - {"specification"} <= used


def test_the_limits_are_those_of_the_code() -> None:
    for limit in (
        scanner.TEXT_MAX, scanner.LINES_MAX, scanner.STATEMENTS_MAX, scanner.STATEMENT_MAX, scanner.DEPTH_MAX,
        TESTS_MAX, CLASSES_MAX, PAIRS_MAX,
    ):  # fmt: skip
        assert f"{limit:,}" in GRAMMAR
