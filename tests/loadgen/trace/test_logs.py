"""Access logs become traces; unusable lines are counted."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.trace.logs import EVENTS, NO_REQUEST, NO_TRACE, NOT_A_LINE, LogReader, as_trace
from loadgen.trace.request import TraceRequest


def _read(*lines: str) -> tuple[list[TraceRequest], LogReader]:
    reader = LogReader(random.Random(1))
    found = list(reader.requests((number, line.encode("latin-1")) for number, line in enumerate(lines, 1)))
    return found, reader


def _entry(**fields: object) -> str:
    entry = {"ts": 1794802655.871, "method": "GET", "host": "h:80", "path": "/a%20b", "class": "A", "status": 200}
    return json.dumps({**entry, **fields}) + "\n"


def _combined(line: str, when: str = "16/Nov/2026:07:14:01 +0100") -> str:
    return f'127.0.0.1 - frank [{when}] "{line}" 200 2326 "http://x/start.html" "Mozilla/4.08 [en]"\n'


def test_json_lines() -> None:
    found, reader = _read(_entry(), _entry(ts=1794802650.0, path="/", method="HEAD"), "\n")
    assert as_trace(found) == [TraceRequest(0.0, "/", "HEAD", "A"), TraceRequest(5.871, "/a%20b", "GET", "A")]
    assert reader.skipped == {}


def test_combined() -> None:
    found, reader = _read(
        _combined("GET /a?b=c HTTP/1.1"),
        _combined("POST /x HTTP/1.0", "16/Nov/2026:06:14:03 +0000"),
        '::1 - - [16/Nov/2026:06:14:02 +0000] "HEAD /common HTTP/1.1" 304 -\n',
        _combined('GET /q\\"uote\\xc3\\xa4 HTTP/1.1'),
    )
    assert reader.skipped == {}
    assert sorted((request.method, request.url) for request in found) == [
        ("GET", "/a?b=c"), ("GET", '/q"uote%C3%A4'), ("HEAD", "/common"), ("POST", "/x"),
    ]  # fmt: skip
    trace = as_trace(found)
    assert trace[-1].url == "/x"
    assert 1 < trace[-1].t < 3


def test_requests_of_one_second_are_spread_over_it() -> None:
    found, _ = _read(*[_combined("GET / HTTP/1.1")] * 1000)
    inside = [request.t % 1 for request in found]
    assert min(inside) < 0.01
    assert max(inside) > 0.99
    assert sum(inside) / 1000 == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (_entry()[:40], NOT_A_LINE),
        ("{}", NOT_A_LINE),
        ("hello", NOT_A_LINE),
        (_combined("GET / HTTP/1.1")[:60], NOT_A_LINE),
        (_combined("GET / HTTP/1.1", "99/Nov/2026:07:14:01 +0100"), NOT_A_LINE),
        (_entry(method="-", path="-"), NO_REQUEST),
        (_combined("-"), NO_REQUEST),
        (_combined("\\x16\\x03\\x01"), NO_REQUEST),
        (json.dumps({"event": "view", "ts": 1.0}), EVENTS),
        (_combined("CONNECT example.com:443 HTTP/1.1"), NO_TRACE),
        (_entry(path="*"), NO_TRACE),
    ],
)
def test_what_cannot_be_used_is_counted(line: str, kind: str) -> None:
    found, reader = _read(_entry(), line, _entry())
    assert len(found) == 2
    assert reader.skipped == {kind: 1}
    assert reader.first_bad_line == (2 if kind == NOT_A_LINE else 0)


@given(st.binary(max_size=200))
def test_any_line_is_used_or_counted(line: bytes) -> None:
    reader = LogReader(random.Random(1))
    found = list(reader.requests([(1, line)]))
    assert len(found) + sum(reader.skipped.values()) + (not line or line.isspace()) >= 1
