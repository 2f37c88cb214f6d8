"""Following a growing log with restarts ends with the same findings as analysing the complete log at once."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from qosweb.analytics.analysis import analyse
from qosweb.analytics.follow import batches
from qosweb.analytics.follow.log_tail import LogTail
from qosweb.analytics.follow.stream import AHEAD, LATE, Stream
from qosweb.analytics.read import sources
from qosweb.analytics.read.rows import HELD, VIOLATED, AnalysisRequest, Verdict
from tests.analytics.logs.truth import Log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from qosweb.analytics.findings import Findings

SPEC = "</a>.available = always\n</b>.server_resource > 30%\naccessed(</p>) within 5s => </q>.available = always\n"
LATE_S = 5.0


class Killed(Exception):
    """Raised by the test where a process would die."""


class Growing:
    """Logs of two nodes, written in pieces, and a stream that is restarted for each piece."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.log, self.written = spark, folder, Log(SPEC), 0
        (folder / "logs").mkdir()
        self.wanted = AnalysisRequest(sources.Sources())
        self.published: list[Findings] = []

    def write(self, *garbage: str) -> None:
        for node in self.log.nodes:
            with (self.folder / "logs" / f"{node}.log").open("a") as file:
                for line in self.log.lines[self.written :]:
                    if line["node"] == node:
                        file.write(json.dumps(line) + "\n")
                file.write("".join(line + "\n" for line in garbage))
        self.written = len(self.log.lines)

    def take_in(self, publish: Callable[[Findings], None] | None = None) -> Findings:
        """Processes all current lines; windows that close are published."""
        checkpoint = self.folder / "checkpoint"
        logs = LogTail([str(self.folder / "logs")], checkpoint)
        self.published = []
        stop = threading.Event()
        stop.set()
        aside = self.folder / "bad"
        Stream(self.spark, self.wanted, logs, checkpoint, LATE_S, publish or self.published.append, aside).run(
            stop, 0.2
        )
        return self.published[-1]


def _told(verdicts: list[Verdict]) -> list[tuple[object, ...]]:
    return sorted((v.kind, v.rule, v.key or (), v.outcome, v.promise or 0, v.got or 0) for v in verdicts)


def test_every_line_counts_once(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "SINGLE_MAX", 1)  # so that batches are put together within this test
    growing = Growing(spark, tmp_path)
    log = growing.log
    asked, served = {"/a": 3, "/b": 6, "default": 6}, {"/a": 3, "/b": 4, "default": 4}
    log.run(12, asked, served)
    growing.write("garbage")

    def die(findings: Findings) -> None:
        raise Killed(findings.outcome)

    with pytest.raises(Killed, match=HELD):  # no window is closed yet: this is the last word of the run
        growing.take_in(die)

    log.request(13.0, "/p", path="/p/x.html", **{"class": "default"})
    log.run(10, asked, served, 14)
    log.request(15.0, "/a", "denied")
    log.request(15.0, "/q", "denied")
    twice = log.request(15.5, "/b", "redirected")
    log.lines.append({**twice, "decision": "served", "status": 200, "node": "n2"})
    growing.write()
    with pytest.raises(Killed, match=HELD):  # a window has closed: within the batch, before Spark knows that it is done
        growing.take_in(die)
    (tmp_path / "logs" / "n1.log").rename(tmp_path / "logs" / "n1.log.1")

    log.lines.append({**twice, "decision": "denied", "status": 503, "node": "n1"})
    log.run(10, asked, served, 30)
    growing.write("garbage again")
    growing.take_in()
    again, closing, last = growing.published  # the batch that was not done with comes first
    assert again.end_s < closing.end_s
    assert [v.rule for v in closing.run if v.outcome == VIOLATED] == [
        "</a>.available = always",
        "accessed(</p>) within 5s => </q>.available = always",
    ]
    assert closing.end_s < last.end_s
    shown = {rid for rids in closing.samples.values() for rid in rids}
    denied = {line["rid"] for line in log.lines if line.get("class") == "/a" and line["decision"] == "denied"}
    assert denied <= shown

    whole = analyse(spark, AnalysisRequest(sources.find([str(tmp_path / "logs")])))
    assert _told(last.windows) == _told(whole.windows)
    assert _told(last.run) == _told(whole.run)
    assert [(v.rule, v.outcome, v.reason) for v in last.cluster] == [
        (v.rule, v.outcome, v.reason) for v in whole.cluster
    ]
    assert (last.table, last.top, last.lines) == (whole.table, whole.top, whole.lines)
    assert sorted((cause, count) for _, cause, count in last.bad) == [("not a JSON object", 2)] * 2
    assert {v.rule for v in last.samples} == {v.rule for v in whole.samples}

    log.request(2.0, "/a", "denied")  # its window was judged long ago
    log.request(400_000.0, "/a")  # a clock that is wrong by days: it must not close all windows
    log.run(1, {"/a": 3}, None, 40)
    growing.write()
    late = growing.take_in()
    assert [sum(count for _, cause, count in late.bad if cause == of) for of in (LATE, AHEAD)] == [1, 1]
    assert late.lines == last.lines + 5
    after = next(row for row in late.table if (row.window_s, row.node, row.name) == (None, None, "/a"))
    before = next(row for row in last.table if (row.window_s, row.node, row.name) == (None, None, "/a"))
    assert (after.served, after.denied) == (before.served + 3, before.denied)
    kept = [json.loads(line) for file in (tmp_path / "bad").glob("*/*.json") for line in file.read_text().splitlines()]
    assert sorted(line["cause"] for line in kept) == sorted([LATE, AHEAD, *["not a JSON object"] * 4])
    assert [folder.name for folder in (tmp_path / "checkpoint" / "batches").glob("sum-*")] == ["sum-000000001"]
    assert len(list((tmp_path / "checkpoint" / "cuts").iterdir())) <= 2, "what Spark has done with is gone"
