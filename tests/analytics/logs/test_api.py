"""The public Python interface on a session that the user opened, with settings that the analysis would not choose."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import qosweb.analytics
from qosweb.analytics import AnalysisLimits, analyze, read_bad_lines, read_events, read_requests
from qosweb.errors import UsageError
from tests.analytics.logs.truth import BEGIN_S, Log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def own_session(spark: SparkSession) -> SparkSession:
    """A session that shares the JVM of the tests, but not the settings."""
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    own.conf.set("spark.sql.ansi.enabled", "false")
    return own


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = Log("</a>.available = always\n")
    log.run(10, {"/a": 4, "default": 2})
    log.request(5.5, "/a", "denied", reason="bound")
    path = log.write(tmp_path / "a.log")
    with path.open("a") as file:
        file.write("nothing\n")
    return path


def test_logs_are_data_frames_with_the_documented_columns(own_session: SparkSession, log: Path) -> None:
    requests = read_requests(own_session, log)
    assert dict(requests.dtypes) == {
        "ts": "double", "rid": "string", "node": "string", "view": "string", "policy": "string", "client": "string",
        "method": "string", "host": "string", "path": "string", "class": "string", "decision": "string",
        "status": "int", "bytes": "bigint", "queue_ms": "double", "service_ms": "double", "total_ms": "double",
        "reason": "string", "resource": "string", "work": "double",
    }  # fmt: skip
    assert [row["reason"] for row in requests.where("reason is not null").collect()] == ["bound"]
    counts = {
        (row["class"], row["decision"]): row["count"] for row in requests.groupBy("class", "decision").count().collect()
    }
    assert counts == {("/a", "served"): 40, ("/a", "denied"): 1, ("default", "served"): 20}
    events = read_events(own_session, [str(log)])
    assert dict(events.dtypes) == {
        "event": "string", "ts": "double", "node": "string", "index": "bigint", "view": "string",
        "members": "array<string>", "primary": "boolean", "policy": "string", "text": "string", "of": "string",
        "capacity_bps": "bigint", "resource": "string", "pool": "string", "limit": "bigint", "cause": "string",
        "request_bytes": "bigint",
    }  # fmt: skip
    written = [json.loads(line) for line in log.read_text().splitlines() if '"event"' in line]
    found = [{name: cell for name, cell in row.asDict().items() if cell is not None} for row in events.collect()]
    assert found == written
    assert [tuple(row)[1:] for row in read_bad_lines(own_session, log).collect()] == [("not a JSON object", "nothing")]


def test_verdicts_and_tables_are_data_frames(own_session: SparkSession, log: Path, tmp_path: Path) -> None:
    found = analyze(own_session, log, limits=AnalysisLimits(window_s=5))
    assert found.outcome == "violated"
    verdicts = found.verdicts()
    broken = verdicts.where("outcome = 'violated' and window is not null").collect()
    assert [(row["kind"], row["window"], row["got"], row["promise"]) for row in broken] == [
        ("always", BEGIN_S + 5, 20.0, 21.0)
    ]
    assert verdicts.where("kind = 'cluster' and line is not null").count() == 0
    (row,) = found.table().where("window is null and node is null and class = '/a'").collect()
    assert (row["served"], row["denied"]) == (40, 1)
    found.write(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == json.loads(json.dumps(found.report()))
    assert own_session.read.parquet(str(tmp_path / "out" / "verdicts.parquet")).count() == verdicts.count()
    assert (tmp_path / "out" / "report.html").exists()


def test_a_specification_may_come_from_a_file(own_session: SparkSession, log: Path, tmp_path: Path) -> None:
    spec = tmp_path / "s.webqos"
    spec.write_text("</b>.num_requests < 1000\n")
    assert analyze(own_session, log, spec=spec).outcome == "not tested"
    with pytest.raises(UsageError, match="no such file or folder"):
        analyze(own_session, tmp_path / "nowhere.log")


def test_the_package_exports_what_it_documents_and_does_not_import_spark() -> None:
    assert all(getattr(qosweb.analytics, name).__doc__ for name in qosweb.analytics.__all__)
    code = "import sys, qosweb.analytics; sys.exit(any(name in sys.modules for name in ('pyspark', 'matplotlib')))"
    subprocess.run([sys.executable, "-c", code], check=True)
