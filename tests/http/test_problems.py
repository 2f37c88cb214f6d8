"""Errors as JSON: which clients prefer it, and its body."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.http.problems import JSON_TYPES, preferred_json_type, problem_body

JSON, PROBLEM = JSON_TYPES


@pytest.mark.parametrize(
    ("accept", "preferred"),
    [
        ("application/json", JSON),
        ("Application/JSON", JSON),
        ("application/json; charset=utf-8", JSON),
        ("application/json;q=0.1", JSON),
        ("application/json, text/plain, */*", JSON),  # a type by its name before one by a wildcard
        ("application/problem+json", PROBLEM),
        ("application/problem+json, application/json;q=0.9", PROBLEM),
        ("application/json, application/problem+json", JSON),
        ("text/html;q=0.5, application/json;q=0.6", JSON),
        ("text/html;q=0, application/json", JSON),
        ("text/*;q=0.9, application/json", JSON),
        (" ,;, application/json ;q=1.000 , x", JSON),
        ("application/json, text/html", None),
        ("text/html, application/json;q=0.9", None),
        ("application/json;q=0.5, */*", None),
        ("application/json;q=0", None),
        ("application/json;q=0, */*", None),
        ("application/vnd.api+json", None),
        ("application/*", None),  # a wildcard does not ask for JSON
        ("*/*", None),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", None),
        ("json", None),
        ("", None),
    ],
)
def test_json_for_those_who_prefer_it(accept: str, preferred: str | None) -> None:
    assert preferred_json_type([accept], "text/html") == preferred


def test_lines_are_joined() -> None:
    assert preferred_json_type(["text/html;q=0.2", "application/json"], "text/html") == JSON
    assert preferred_json_type([], "text/html") is None


@given(st.lists(st.text(alphabet="aplictonjsx/*;,=q.01 \t", max_size=60), max_size=3))
def test_any_text_is_read(accept: list[str]) -> None:
    assert preferred_json_type([*accept, "x/json"], "text/html") in (None, *JSON_TYPES)


def test_a_body_is_one_object() -> None:
    body = problem_body(404, "Not Found", 'No "page".')
    assert json.loads(body) == {"status": 404, "title": "Not Found", "detail": 'No "page".'}
    assert body.endswith(b"}\n")
