"""All log formats in one folder: plain and compressed JSON, Parquet, combined; and bad lines."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from qosweb.analytics.analysis import analyse
from qosweb.analytics.judge import view_chain
from qosweb.analytics.read import sources
from qosweb.analytics.read.log_lines import events, read_lines, requests
from qosweb.analytics.read.rows import VIOLATED, AnalysisRequest
from qosweb.analytics.report.html_report import page
from qosweb.analytics.report.json_report import as_json
from qosweb.analytics.report.parquet_export import export_lines, export_tables
from qosweb.errors import UsageError
from tests.analytics.logs.truth import Log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SPEC = "</a>.available = always\n"
COMBINED = '10.0.0.9 - - [15/Jan/2027:08:00:0{at} +0000] "GET /x?q=1 HTTP/1.1" {status} 100 "-" "a \\"b\\""\n'
BAD = {
    '{"ts":1800000001.0,"rid":"x': "cut off",
    "hello": "not a JSON object",
    '{"ts":"soon","rid":"1"}': "a field of the wrong type",
    "{}": "no field 'ts'",
    '{"a" 1}': "not valid JSON",
}


def test_all_formats_and_all_causes_of_bad_lines(spark: SparkSession, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    logs.mkdir()
    log = Log(SPEC)
    log.run(2, {"/a": 5, "default": 5})
    log.request(1.5, "/a", decision="eaten")
    log.request(1.5, "/a", bytes=-1)
    log.request(1.5, "default", method="-", path="-")
    twice = log.request(1.5, "/a", "redirected")
    log.lines.append({**twice, "decision": "served", "status": 200, "node": "n2"})
    log.lines.append({**twice, "decision": "denied", "status": 503, "node": "n1"})
    log.request(1.5, "/a", "blocked", status=403)
    plain = log.write(logs / "n1.log", lambda line: line["node"] == "n1")
    with plain.open("a") as file:
        file.write("".join(line + "\n" for line in BAD) + "\n")
    text = "".join(json.dumps(line) + "\n" for line in log.lines if line["node"] == "n2")
    (logs / "n2.log.gz").write_bytes(gzip.compress(text.encode()))
    (logs / "apache.log").write_text(COMBINED.format(at=0, status=200) + COMBINED.format(at=1, status=503) + "?\n")

    findings = analyse(spark, AnalysisRequest(sources.find([str(logs)])), bad_folder=str(out / "bad"))

    expected = [(cause, 1) for cause in (*BAD.values(), "unknown decision", "a number out of range")]
    expected.append(("not a JSON object", 1))  # the last line of the combined log
    assert sorted((cause, count) for _, cause, count in findings.bad) == sorted(expected)
    aside = [json.loads(line) for file in (out / "bad").glob("*.json") for line in file.read_text().splitlines()]
    assert {line["line"] for line in aside} >= set(BAD)
    assert len(aside) == len(expected)
    once = next(v for v in findings.cluster if v.rule == view_chain.ONCE)
    assert once.outcome == VIOLATED
    assert f"{twice['rid']}: denied at n1, served at n2" in once.reason
    rows = {row.name: row for row in findings.table if row.window_s is None and row.node is None}
    assert (rows["/a"].served, rows["/a"].denied, rows["/a"].redirected, rows["/a"].blocked) == (11, 1, 1, 1)
    assert rows["/a"].asked == 12  # no guarantee applies to blocked requests
    assert (rows["-"].served, rows["-"].denied, rows["default"].asked) == (1, 1, 10)
    assert findings.notes == ["2 requests in the combined format, which has no class: not judged"]
    assert {row.name for row in findings.top if row.what == "page"} >= {"/x", "/default.html"}

    found = sources.find([str(logs)])
    export_lines(spark, found, out)
    export_tables(spark, findings, out)
    assert spark.read.parquet(str(out / "table.parquet")).count() == len(findings.table)
    kept = sources.find([str(out / "lines.parquet")])
    assert kept.parquet
    again = read_lines(spark, kept)
    assert sorted(events(again)) == sorted(findings.events)
    again = requests(again)
    assert again.where("cause is null").count() == again.count() == findings.lines - len(expected)
    json.dumps(as_json(findings))
    html = page(findings)
    assert html.count("<svg") == 4
    assert "src=" not in html


def test_logs_without_a_request_are_bad_input(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text('{"event":"view","ts":1,"node":"n","view":"1:a","members":["n"],"primary":true}\nnonsense\n')
    with pytest.raises(UsageError, match=r"no request could be read from the logs \(1 lines: not a JSON object"):
        analyse(spark, AnalysisRequest(sources.find([str(log)])))
