"""Summaries, assertions and comparisons, on fixed results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from loadgen.cli import main
from loadgen.results.assertions import parse_assertion
from loadgen.results.histogram import Histogram
from loadgen.results.recount import recount
from loadgen.results.results import FirstLine, Result, RunFacts
from loadgen.results.summary import RunSummary, render
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

FACTS = RunFacts(
    trace="t.jsonl", targets=["http://127.0.0.1:1", "http://127.0.0.1:2"], spread=[1.0, 1.0],
    started="2026-11-16T07:14:01+00:00", requests=200, duration_s=2.0, processes=1, connections=10, timeout_s=10.0,
    send_within_s=5.0,
)  # fmt: skip


def _results(slower: int = 1) -> list[Result]:
    """A: 100 accepted in 1 ms to 100 ms. B: 50 accepted in 10 ms, 30 denied, 15 failed, 5 unsent."""
    found = [
        Result(n, n / 100, "/a", "accepted", class_name="A", status=200, bytes=10, latency_us=(n + 1) * 1000 * slower)
        for n in range(100)
    ]
    for n in range(100, 200):
        if n < 150:
            more = Result(
                n, n / 100, "/b", "accepted", class_name="B", status=200, bytes=5, latency_us=10_000, target=1,
                read_late_us=n - 100,
            )  # fmt: skip
        elif n < 180:
            more = Result(n, n / 100, "/b", "denied", class_name="B", status=503, reason="over its share", latency_us=9)
        elif n < 195:
            more = Result(n, n / 100, "/b", "failed", class_name="B", cause="connection reset", redirects=2)
        else:
            more = Result(n, n / 100, "/b", "unsent", class_name="B", late_us=2000)
        found.append(more)
    return found


def _summary() -> RunSummary:
    return recount(FACTS, _results())


def _write(path: Path, results: list[Result]) -> Path:
    lines = [msgspec.json.encode(FirstLine(FACTS)), *map(msgspec.json.encode, results)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_numbers_of_a_summary() -> None:
    summary = _summary()
    a, b = summary.classes["A"], summary.classes["B"]
    assert summary.all.outcomes == {"accepted": 150, "denied": 30, "redirected": 0, "failed": 15, "unsent": 5}
    assert (a.served, b.served, summary.all.served) == (1.0, 0.5, 0.75)
    assert (a.bytes, b.bytes) == (1000, 250)
    assert b.denied_by_reason == {"over its share": 30}
    assert b.failed_by_cause == {"connection reset": 15}
    assert (b.redirects, b.redirected) == (30, 15)
    assert a.latency_ms.percentiles == pytest.approx({"p50": 50, "p90": 90, "p99": 99, "p99.9": 100}, rel=0.001)
    assert a.latency_ms.max == 100.0
    assert a.answer_ms.percentiles == pytest.approx(a.latency_ms.percentiles, rel=0.001)
    assert Histogram.decode(a.latency_ms.hdr).total == 100
    assert summary.targets == {"http://127.0.0.1:1": 150, "http://127.0.0.1:2": 50}
    assert (summary.read_lateness_ms.count, summary.read_lateness_ms.max) == (50, 0.049)  # of those that say so
    assert not summary.interrupted


def test_the_text_names_everything() -> None:
    text = render(_summary())
    for words in ("200 requests", "over its share", "connection reset", "75.00%", "late by", "5 requests were not sent",
                  "read responses late by 0.024 ms (p50), 0.049 ms (p99)",
                  "redirects: 30 followed, in 15 requests", "to http://127.0.0.1:2: 50"):  # fmt: skip
        assert words in text


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("A.served>=99.9%", True), ("served>=75%", True), ("served>75%", False), ("B.served>=99.9%", False),
        ("B.denied<=30", True), ("B.denied<30", False), ("B.denied==30%", True), ("failed<=15", True),
        ("B.unsent==0", False), ("p50<60ms", True), ("A.p99<200ms", True), ("A.p99<0.05s", False),
        ("A.p99.9<=101ms", True), ("A.max<=100ms", True), ("A.mean<51ms", True), ("late_p99<1ms", False),
        ("late_max<3ms", True), ("rate>=70/s", True), ("rate>80", False), ("A.requests==100", True),
        ("redirects==30", True), ("retries==0", True), ("C.served>=1%", False), (" A.served >= 99.9 % ", True),
        ("A.p99<.2s", True), ("B.denied==30.00%", True), ("read_late_p99<50us", True), ("read_late_max<49us", False),
    ],
)  # fmt: skip
def test_assertions(text: str, holds: bool) -> None:
    assert parse_assertion(text).judge(_summary()).holds is holds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not understood"), ("served", "not understood"), ("A.served=99%", "'=' is not a comparison; use one"),
        (">5", "not understood"), ("1<p99<3", "not understood"), ("served=>9%", "'=>' is not a comparison"),
        ("A.wait>5", "unknown metric 'wait'; use one of served, "), ("P99<5ms", "did you mean p99?"),
        ("A.servd>5", "did you mean served?"), ("p100<5s", "write max instead of p100"), ("p99<5%", "needs a unit"),
        ("served>9.5", "for a share write 9.5%"), ("served>150%", "cannot be more than 100%"),
        ("p99<200", "needs a unit"),
        ("served>99ms", "a count or, with %"), ("rate>5%", "per second"), ("A.late_p99<5ms", "has no class"),
        ("A.read_late_p99<5ms", "has no class"),
        ("p99<1.2.3ms", "'1.2.3ms' is not a number"), ("served>=99,9%", "'99,9%' is not a number"),
        ("served>=", "'' is not a number"), ("A.p999<5ms", "p999 is not a percentile below 100"),
    ],
)  # fmt: skip
def test_bad_assertions(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_assertion(text)


def test_shares_are_compared_exactly() -> None:
    thousand = [Result(n, n / 1000, "/", "accepted" if n else "denied", latency_us=1000) for n in range(1000)]
    summary = recount(msgspec.structs.replace(FACTS, requests=1000), thousand)
    assert parse_assertion("served>=99.9%").judge(summary).holds
    assert not parse_assertion("served>99.9%").judge(summary).holds


def test_classes_with_equals_signs() -> None:
    assertion = parse_assertion("/shop?of=a<b.served>=5%")
    assert (assertion.class_name, assertion.metric, assertion.op) == ("/shop?of=a<b", "served", ">=")


def test_classes_with_dots() -> None:
    assertion = parse_assertion("shop.example/a.b.p99.9<1s")
    assert (assertion.class_name, assertion.metric) == ("shop.example/a.b", "p99.9")


def test_report_of_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = _write(tmp_path / "r.jsonl", _results())
    summary = str(tmp_path / "s.json")
    assert main(["report", str(results), "--summary", summary, "--assert", "A.served==100%"]) == 0
    first = capsys.readouterr().out
    assert "holds:  A.served==100%  (100.0000% (100 of 100))" in first
    assert main(["report", summary, "--assert", "p99<1ms"]) == 1
    again = capsys.readouterr().out
    assert again.splitlines()[:5] == first.splitlines()[:5]
    assert "FAILS:  p99<1ms" in again
    of_b = json.loads((tmp_path / "s.json").read_text())["classes"]["B"]["latency_ms"]
    assert Histogram.decode(of_b["hdr"]).total == 50


def test_report_of_two_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = _write(tmp_path / "a.jsonl", _results()), _write(tmp_path / "b.jsonl", _results(slower=2)[:180])
    assert main(["report", str(a), str(b)]) == 0
    text = capsys.readouterr().out
    assert "p50" in text
    assert "+50.0 ms" in text
    assert main(["report", str(a), str(b), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert compared["A"]["max"] == {"a": 100.0, "b": 200.0, "difference": 100.0}
    assert compared["B"]["failed"] == {"a": 15, "b": 0, "difference": -15}


def test_a_class_that_only_one_run_has_is_null_in_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both, only_a = _write(tmp_path / "both.jsonl", _results()), _write(tmp_path / "a.jsonl", _results()[:100])
    assert main(["report", str(both), str(only_a), "--json"]) == 0
    lost = json.loads(capsys.readouterr().out)
    assert lost["B"]["accepted"] == {"a": 50, "b": None, "difference": None}
    assert lost["B"]["p50"]["a"] == pytest.approx(10, rel=0.001)
    assert all(figure["b"] is figure["difference"] is None for figure in lost["B"].values())
    assert lost["A"]["accepted"] == {"a": 100, "b": 100, "difference": 0}
    assert main(["report", str(only_a), str(both), "--json"]) == 0
    won = json.loads(capsys.readouterr().out)
    assert won["B"]["failed"] == {"a": None, "b": 15, "difference": None}


def test_results_that_end_early_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(_write(tmp_path / "a.jsonl", _results()[:50]))]) == 0
    assert "150 requests of the trace were not run" in capsys.readouterr().out


def test_a_summary_that_is_read_back_is_the_same() -> None:
    summary = _summary()
    assert msgspec.json.decode(msgspec.json.encode(summary), type=RunSummary) == summary
