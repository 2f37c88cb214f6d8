"""How the batch analysis works: lines are read once where possible, and the driver holds few windows at a time."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from qosweb.analytics import analysis, findings
from qosweb.analytics.analysis import analyse
from qosweb.analytics.judge.verdicts import PAGES
from qosweb.analytics.read import line_queries, slot_sums, sources
from qosweb.analytics.read.line_scan import LineScan
from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED, AnalysisRequest
from qosweb.analytics.report.json_report import as_json
from tests.analytics.logs.truth import BEGIN_S, Log

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from qosweb.analytics.findings import Findings


def test_response_times_of_late_policies_are_judged(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log("</a>.response_time < 10ms\n")
    log.run(10, {"/a": 4})
    log.run(9, {"/a": 4}, begin=10)
    log.request(19.5, "/a", service_ms=100.0)
    wanted = AnalysisRequest(sources.find([str(log.write(tmp_path / "a.log"))]))
    scans: list[object] = []

    def counting(*arguments: Any, **options: Any) -> object:
        scans.append(arguments)
        return LineScan(*arguments, **options)

    monkeypatch.setattr(analysis, "LineScan", counting)
    told_at_first = analyse(spark, wanted)
    assert len(scans) == 1
    monkeypatch.setattr(sources, "first_lines", lambda _: iter(()))
    told_late = analyse(spark, wanted)
    assert len(scans) == 3, "once more, with what the first time showed"
    assert [verdict.outcome for verdict in told_late.windows if verdict.kind == "response time"] == [HELD, VIOLATED]
    assert told_late.windows == told_at_first.windows
    assert told_late.samples == told_at_first.samples


def test_evidence_of_a_share_that_is_short_only_over_the_run(spark: SparkSession, tmp_path: Path) -> None:
    """Short by 1.5 points in each of six windows, by 1.8 in one: no window is violated, but the run is."""
    log = Log("</a>.server_resource > 50%\n")
    for window in range(6):
        log.run(10, {"/a": 700, "default": 700}, {"/a": 482 if window == 3 else 485, "default": 515}, begin=10 * window)
    findings = analyse(spark, AnalysisRequest(sources.find([str(log.write(tmp_path / "a.log"))])))
    assert VIOLATED not in {verdict.outcome for verdict in findings.windows}
    (broken,) = (one for one in _promises(findings) if one["outcome"] == VIOLATED)
    assert broken["rule"] == "</a>.server_resource > 50%"
    shown = [line for line in log.lines if line.get("rid") in broken["rids"]]
    assert len(shown) == line_queries.SAMPLE
    assert {(line["class"], line["decision"]) for line in shown} == {("/a", "denied")}
    assert {int(line["ts"] - BEGIN_S) // 10 for line in shown} == {3}


def _promises(findings: Findings) -> list[dict[str, Any]]:
    written: Any = as_json(findings)["promises"]
    return list(written)


def test_too_many_pages_leave_access_rules_untested(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log("accessed(</p>) within 5s => </q>.available = always\n</a>.available = always\n")
    log.run(10, {"/a": 20, "/q": 20})
    log.request(5.5, "/a", "denied")
    monkeypatch.setattr(line_queries, "PAGES_MAX", 3)
    findings = analyse(spark, AnalysisRequest(sources.find([str(log.write(tmp_path / "a.log"))])))
    assert {one.rule: (one.outcome, one.reason) for one in findings.run if one.line} == {
        "</a>.available = always": (
            VIOLATED,
            "violated in 1 of 1 tested windows; the worst: 1 of 201 requests were denied or expired",
        ),
        "accessed(</p>) within 5s => </q>.available = always": (NOT_TESTED, PAGES),
    }
    assert len([note for note in findings.notes if note.startswith("conditions on accesses: too many pages")]) == 1


def test_the_driver_holds_few_windows_at_a_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log("</a>.server_resource > 30%\n")
    log.run(60, {"/a": 3, "default": 3}, {"/a": 1, "default": 2})
    wanted = AnalysisRequest(sources.find([str(log.write(tmp_path / "a.log"))]))
    at_once: list[int] = []

    def counting(*arguments: Any) -> list[Any]:
        rows = by_slot(*arguments)
        at_once.append(len(rows))
        return rows

    by_slot = slot_sums.by_slot
    monkeypatch.setattr(slot_sums, "by_slot", counting)
    whole = analyse(spark, wanted)
    monkeypatch.setattr(findings, "ROWS_AT_ONCE", 50)  # of two classes in ten seconds there are twenty
    in_pieces = analyse(spark, wanted)
    assert at_once == [120, 40, 40, 40]
    assert (in_pieces.windows, in_pieces.run) == (whole.windows, whole.run)
    assert {verdict.key.window_s for verdict in in_pieces.windows if verdict.key} == {
        row.window_s for row in in_pieces.table if row.window_s is not None
    }


def test_bad_lines_are_counted_by_their_cause(spark: SparkSession, tmp_path: Path) -> None:
    """The first pass does not read the text of bad lines; a second one classifies them."""
    log = Log("</a>.available = always\n")
    good = log.request(1.0, "/a")
    path = log.write(tmp_path / "a.log")
    with path.open("a") as file:
        file.write('{"ts":1\n{"event":"view","ts":1.0,"node":"n1"}\nnothing\nnothing\n')
        for name, value in {"ts": "late", "status": [], "bytes": 1.5, "rid": None, "method": "-"}.items():
            file.write(json.dumps(good | {name: value}) + "\n")
        file.write(json.dumps(good | {"method": "-", "bytes": "many"}) + "\n")
        file.write(json.dumps(good | {"method": "-"})[:-1] + "\n")
        file.write(json.dumps(good)[:-1] + "\n" + json.dumps(good) + ",\n[]\nnull\n5\n\n{}\n")
        file.write('{"event":"other","ts":1.0,"node":"n1","status":"x"}\n{"event":"other","ts":"x","node":"n1"}\n')
    findings = analyse(spark, AnalysisRequest(sources.find([str(path)])))
    assert {(file, cause): count for file, cause, count in findings.bad} == {
        (f"file:{path}", cause): count
        for cause, count in {
            "a field of the wrong type": 5,
            "not a JSON object": 4,
            "cut off": 3,
            "no field 'rid'": 1,
            "no field 'ts'": 1,
            "no field 'view'": 1,
        }.items()
    }
    good_lines = 2  # Spark passes over what follows an object
    assert [row.served for row in findings.table if (row.window_s, row.node, row.name) == (None,) * 3] == [good_lines]


def test_periods_without_lines_are_skipped(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line with a time long ago, from a wrong clock: the years in between cost nothing."""
    log = Log("</a>.server_resource > 30%\n")
    log.run(20, {"/a": 3, "default": 3}, {"/a": 1, "default": 2})
    log.request(-1.7e9, "/a")
    wanted = AnalysisRequest(sources.find([str(log.write(tmp_path / "a.log"))]))
    looks: list[range] = []

    def counting(of_slots: Any, slots: range, *arguments: Any) -> list[Any]:
        looks.append(slots)
        return by_slot(of_slots, slots, *arguments)

    by_slot = slot_sums.by_slot
    monkeypatch.setattr(slot_sums, "by_slot", counting)
    monkeypatch.setattr(findings, "ROWS_AT_ONCE", 45)
    found = analyse(spark, wanted)
    assert len(looks) == 2
    assert all(one.stop <= next_one.start for one, next_one in pairwise(looks))
    for key in ("name", "node"):
        rows = [row for row in found.table if row.window_s is not None and getattr(row, key) is not None]
        assert sum(row.served for row in rows) == 20 * 3 + 1
