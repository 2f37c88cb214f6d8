"""The reference documents every key of the JSON report, every column and every option."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qosweb.analytics.command_line import add_analyze
from qosweb.analytics.findings import Findings
from qosweb.analytics.judge.capacity_needs import ClassNeed, WindowCapacity
from qosweb.analytics.judge.flash_crowds import DetectedCrowd
from qosweb.analytics.read.policies import from_events
from qosweb.analytics.read.rows import HELD, VIOLATED, AnalysisLimits, LogEvent, PartKey, Verdict
from qosweb.analytics.read.tables import OutcomeCounts, Top
from qosweb.analytics.report import parquet_export
from qosweb.analytics.report.html_report import page
from qosweb.analytics.report.json_report import as_json
from qosweb.analytics.report.terminal import show
from qosweb.analytics.spark.progress import StepProgress

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

DOCUMENTED = (Path(__file__).parents[3] / "docs" / "reference" / "analysis.md").read_text("utf-8")
NAMED = frozenset(re.findall(r"`([^`\n]+)`", DOCUMENTED))


def _findings() -> Findings:
    """Findings with one element in every list."""
    rule = "</a>.available = always"
    policies, _ = from_events([LogEvent("policy", 0.0, "n1", 1, policy="p", text=rule)])
    window = Verdict("always", rule, "p", PartKey(0, "p", "", 0), VIOLATED, "", line=1)
    return Findings(
        AnalysisLimits(), VIOLATED, [window._replace(key=None)], [window],
        [Verdict("cluster", "one chain", "", None, HELD, "")],
        {window: ["r-1"]},
        [OutcomeCounts(0, None, "/a", 1, 2, 3, 4, 5, 6, 7, 8, 0, 9, (1.0, 2.0, 3.0), (1.0, 2.0, 3.0))],
        [DetectedCrowd("/a", 0, 10, 3.0, (("/b", 1.0, 0.5),))], [WindowCapacity(0, 1.0, 2)], [ClassNeed("/a", 1.0, 2.0,
        1.0)], [("a.log", "cut off", 1)], [], list(policies.values()), ["a note"], 1, 0.0, 10.0, [Top("page", "/a/x", 1,
        1, 9)],
    )  # fmt: skip


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _keys(inner)
    elif isinstance(value, list):
        assert value, "of every list the report has one here"
        for inner in value:
            yield from _keys(inner)


def test_text_from_logs_is_escaped_on_the_page() -> None:
    findings = _findings()
    findings.notes.append("<script>alert(1)</script>")
    html = page(findings, refresh_s=5)
    assert html.startswith("<!doctype html>")
    assert "<script" not in html
    assert "&lt;/a&gt;.available = always" in html
    assert "<meta http-equiv=refresh content=5>" in html


def test_page_and_terminal_name_the_policy_of_a_verdict_if_there_were_several(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = _findings()
    events = [LogEvent("policy", ts, "n1", place, policy=name, text=text) for ts, place, name, text in (
        (0.0, 1, "0123456789ab", "</a>.available = always"), (60.0, 2, "ba9876543210", "</a>.server_resource > 10%"),
    )]  # fmt: skip
    known, _ = from_events(events)
    several = replace(
        one,
        run=[one.run[0]._replace(policy=name) for name in known],
        events=events,
        policies=list(known.values()),
    )
    html = page(several)
    show(several)
    out = " ".join(capsys.readouterr().out.split())
    for text in ("under 01234567 (since 00:00:00)", "under ba987654 (since 00:01:00)"):
        assert text in html
        assert text in out
    assert " under " not in page(one)


def test_rare_counts_have_a_column_if_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    findings = _findings()
    row = findings.table[0]._replace(window_s=None)
    shown = []
    for refused, blocked in ((0, 0), (21, 0), (0, 31)):
        show(replace(findings, table=[row._replace(refused=refused, blocked=blocked)]))
        heads, counts = capsys.readouterr().out.splitlines()[:2]
        assert ("31" in counts.split()) == bool(blocked)
        shown.append([name for name in ("429", "blocked") if name in heads.split()])
    assert shown == [[], ["429"], ["blocked"]]


def test_control_characters_from_logs_are_escaped_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[2J\x9b31m\r\u202e"
    one = _findings()
    verdict = one.windows[0]._replace(rule=f"rule{evil}", reason=f"reason{evil}")
    show(
        replace(
            one,
            run=[verdict._replace(key=None)],
            windows=[verdict],
            samples={verdict: [f"rid{evil}"]},
            table=[one.table[0]._replace(window_s=None, name=f"class{evil}")],
            crowds=[one.crowds[0]._replace(name=f"crowd{evil}", paid=((f"payer{evil}", 1.0, 0.5),))],
            bad=[(f"file{evil}", f"cause{evil}", 1)],
            notes=[f"note{evil}"],
        )
    )
    StepProgress(quiet=False).show_step(f"step{evil}")
    shown = capsys.readouterr()
    text = re.sub(r"\s", "", shown.out + shown.err)  # cells are folded
    for word in ("rule", "reason", "rid", "class", "crowd", "payer", "file", "cause", "note", "step"):
        assert word + r"\x1b[2J\x9b31m\r\u202e" in text, word
    assert all(c.isprintable() or c == "\n" for c in shown.out + shown.err)


def test_every_key_of_the_report_is_documented() -> None:
    keys = set(_keys(as_json(_findings())))
    assert {"promises", "rids", "skip_s", "wait_ms_p99", "served_meanwhile", "known_bps", "not tested"} <= keys
    assert keys - NAMED == set()


def test_every_column_is_documented() -> None:
    columns = {
        column.split()[0] for schema in (parquet_export.VERDICTS, parquet_export.TABLE) for column in schema.split(", ")
    }
    assert {"window", "rids", "service_ms_p50"} <= columns
    assert columns - NAMED == set()


def test_every_option_is_documented() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    add_analyze(parser)
    flags = [flag for action in parser._actions for flag in action.option_strings]
    assert [flag for flag in flags if not re.search(rf"`[^`\n]*{flag}\b", DOCUMENTED)] == []
