"""Shares in each pool of resources: handwritten logs of a pool of upstream servers whose truth is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from qosweb.analytics.analysis import analyse
from qosweb.analytics.read import sources
from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED, AnalysisRequest
from qosweb.analytics.report.html_report import page
from qosweb.analytics.report.json_report import as_json
from qosweb.analytics.report.terminal import show
from tests.analytics.logs.truth import BEGIN_S, Log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from qosweb.analytics.findings import Findings

SPEC = "set lifetime = 30s\n</a>.server_resource = 60%\n</b>.server_resource = 40%\n"
RULE = "</a>.server_resource = 60%"
POOL = "one+two"
SECONDS = 20
SLOTS = 4


def resource(log: Log, ts: float, name: str, cause: str | None, **fields: Any) -> None:
    event = {"event": "resource", "ts": BEGIN_S + ts, "node": "n1", "resource": name, "kind": "server", "pool": POOL}
    event |= {"limit": SLOTS, "found": "knee", "in_use": 4, "waiting": 9, "cause": cause, "request_bytes": 0}
    log.lines.append(event | fields)


def log_of(cause: str | None = "server", spec: str = SPEC) -> Log:
    """A log whose pool is contended all the time."""
    log = Log(spec, nodes=("n1",))
    for name in ("one", "two"):
        resource(log, -2, name, None)
        if cause:
            resource(log, -1, name, cause)
    return log


def serve(log: Log, name: str, per_s: int, work: float, queue_ms: float, **fields: Any) -> Log:
    """``per_s`` requests of a class each second, which nobody denied; each waited for ``queue_ms``."""
    for at in range(SECONDS * per_s):
        more = {"resource": ("one", "two")[at % 2], "work": work, "service_ms": work} | fields
        log.request((at + 0.5) / per_s, name, queue_ms=queue_ms, **more)
    return log


def findings_of(spark: SparkSession, log: Log, tmp_path: Path) -> Findings:
    return analyse(spark, AnalysisRequest(sources.find([str(log.write(tmp_path / "access.log"))])))


def outcomes(findings: Findings, pool: str = POOL) -> dict[str, str]:
    """By kind, of the rule on /a, of the run."""
    return {one.kind: one.outcome for one in findings.run if one.rule == RULE and one.pool == pool}


def test_a_class_that_waits_and_gets_less_than_its_share_is_starved(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both classes always have a request waiting, and none is denied; /a gets 30 % of the slot time."""
    log = serve(serve(log_of(), "/a", 60, 20.0, 250.0), "/b", 140, 20.0, 250.0)
    findings = findings_of(spark, log, tmp_path)
    assert findings.outcome == VIOLATED
    assert outcomes(findings)["share at least"] == VIOLATED
    (of_run,) = (one for one in findings.run if one.rule == RULE and one.kind == "share at least")
    assert (of_run.pool, of_run.cause, of_run.unit) == (POOL, "server", "slot us")
    assert of_run.got is not None
    assert of_run.whole is not None
    assert of_run.got / of_run.whole == pytest.approx(0.3, abs=0.001)
    rows: Any = as_json(findings)["promises"]
    assert (POOL, "server", VIOLATED) in {(row["pool"], row["cause"], row["outcome"]) for row in rows}
    assert any(row["rids"] for row in rows if row["rule"] == RULE), "requests that waited are shown"
    assert f"share at least at {POOL} (bottleneck: server)" in page(findings)
    show(findings)
    assert f"at {POOL} (bottleneck: server)" in capsys.readouterr().out.replace("\n", " ")


def test_slot_time_counts_and_not_bytes_or_requests(spark: SparkSession, tmp_path: Path) -> None:
    """/a gets 60 % of the slot time with a quarter of the requests, and hardly any bytes."""
    log = serve(serve(log_of(), "/a", 40, 60.0, 250.0, bytes=10), "/b", 80, 20.0, 250.0, bytes=50_000)
    findings = findings_of(spark, log, tmp_path)
    assert findings.outcome == HELD
    assert outcomes(findings)["share at least"] == HELD


def test_a_class_that_hardly_waits_got_what_it_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    """Short waits, for the next free slot, are no unmet demand."""
    log = serve(serve(log_of(), "/a", 60, 20.0, 6.0), "/b", 140, 20.0, 250.0)
    assert findings_of(spark, log, tmp_path).outcome == HELD


@pytest.mark.parametrize(("queue_ms", "outcome"), [(25.0, HELD), (300.0, VIOLATED)])
def test_a_response_in_service_is_not_interrupted(
    spark: SparkSession, tmp_path: Path, queue_ms: float, outcome: str
) -> None:
    """Small requests of /a, one after the other, wait for the end of one of eight large responses, or far longer."""
    log = serve(serve(log_of(), "/a", 5, 2.0, queue_ms), "/b", 40, 200.0, 250.0)
    assert outcomes(findings_of(spark, log, tmp_path))["share at least"] == outcome


def test_a_wait_for_the_end_of_a_response_may_go_on_in_the_next_second(spark: SparkSession, tmp_path: Path) -> None:
    """With a short lifetime, each second is divided for itself."""
    log = serve(log_of(spec=SPEC.replace("30s", "500ms")), "/b", 5, 400.0, 250.0)
    for at in range(0, SECONDS, 2):
        log.request(at + 1.15, "/a", queue_ms=300.0, resource="one", work=2.0, service_ms=2.0)
    assert outcomes(findings_of(spark, log, tmp_path))["share at least"] == HELD


def test_a_class_that_waits_all_the_time_is_starved_although_responses_are_large(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = serve(serve(log_of(), "/a", 10, 200.0, 250.0), "/b", 30, 200.0, 250.0)
    assert outcomes(findings_of(spark, log, tmp_path))["share at least"] == VIOLATED


def test_a_pool_that_was_not_contended_tests_nothing(spark: SparkSession, tmp_path: Path) -> None:
    log = serve(serve(log_of(None), "/a", 60, 20.0, 0.0), "/b", 140, 20.0, 0.0)
    findings = findings_of(spark, log, tmp_path)
    assert set(outcomes(findings).values()) == {NOT_TESTED}
    assert findings.outcome == NOT_TESTED


def test_denied_requests_belong_to_the_pool_for_which_they_waited(spark: SparkSession, tmp_path: Path) -> None:
    """/a is denied at the servers; at the node, where nothing is short, no share is tested."""
    log = serve(serve(log_of(), "/a", 60, 20.0, 0.0), "/b", 140, 20.0, 0.0)
    resource(log, -2, "n1", None, kind="node", pool="nodes", limit=10**9)
    for at in range(SECONDS * 100):
        log.request((at + 0.5) / 100, "/a", "denied", resource=POOL, work=0.0)
    for at in range(SECONDS * 10):
        log.request((at + 0.5) / 10, "/b")  # a file of the node
    findings = findings_of(spark, log, tmp_path)
    assert outcomes(findings)["share at least"] == VIOLATED
    assert set(outcomes(findings, "nodes").values()) == {NOT_TESTED}


def test_logs_without_events_of_resources_are_judged_by_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """As before: /a waited and got 30 %, but nobody was denied, so it asked for no more."""
    log = serve(serve(Log(SPEC, nodes=("n1",)), "/a", 60, 20.0, 250.0), "/b", 140, 20.0, 250.0)
    findings = findings_of(spark, log, tmp_path)
    assert outcomes(findings, "")["share at least"] == HELD
    assert {one.pool for one in findings.run} == {""}


def test_a_hard_share_of_a_server_is_at_least_one_slot(spark: SparkSession, tmp_path: Path) -> None:
    spec = "</a>.server_resource < 5% hard\n"
    for per_s, outcome in ((53, HELD), (70, VIOLATED)):  # 1.06 and 1.4 slots; 5 % of 8 slots are 0.4
        log = Log(spec, nodes=("n1",))
        for name in ("one", "two"):
            resource(log, -1, name, "server")
        serve(log, "/a", per_s, 20.0, 250.0)
        found = findings_of(spark, log, tmp_path)
        assert {one.outcome for one in found.run if one.kind == "share hard"} == {outcome}, per_s
