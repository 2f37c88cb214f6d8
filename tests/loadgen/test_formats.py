"""Files of the load generator: golden bytes of trace and results lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from loadgen.results.results import FirstLine, Result, RunFacts
from loadgen.trace.request import TraceRequest
from tests.support.golden import Case, assert_all_types_occur, check

DATA = Path(__file__).parent / "data"
VALUES: dict[str, Any] = {
    "trace.line": TraceRequest(0.25, "/page", "POST", "a", {"x-kind": "b"}, 300),
    "trace.line.short": TraceRequest(0.5, "/page"),
    "results.first": FirstLine(
        RunFacts("trace.jsonl", ["http://a"], [1.0], "2026-01-02T03:04:05Z", 9, 2.5, 1, 64, 10.0, 1.0, "1", True, False,
                 {"x-kind": "b"}, ["cookie"], 3, 4.0, 1_000, True, "ca.pem")
    ),
    "results.line": Result(1, 0.25, "/page", "served", "POST", "a", {"x-kind": "b"}, "file", 1, 200, "/page", "full",
                           "late", 300, 1, 2, 3, 4, 5, 6),
    "results.line.short": Result(2, 0.5, "/page", "failed"),
}  # fmt: skip


def test_lines_of_traces_and_results(write_golden: bool) -> None:
    cases = {
        name: Case(value, msgspec.json.encode, msgspec.json.Decoder(type(value)).decode)
        for name, value in VALUES.items()
    }
    check(DATA / "lines.txt", cases, write=write_golden)


def test_every_type_has_a_golden_value() -> None:
    assert_all_types_occur([type(value) for value in VALUES.values()], VALUES.values())
