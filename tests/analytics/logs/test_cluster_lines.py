"""Cluster guarantees through the whole analysis: planted violations, a real redirect, unreadable event lines.

Also: the outcome of a run in which nothing was tested.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from qosweb.analytics import findings
from qosweb.analytics.analysis import analyse
from qosweb.analytics.judge import view_chain
from qosweb.analytics.read import line_scan, sources
from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED, AnalysisRequest
from qosweb.analytics.report.html_report import page
from qosweb.analytics.report.json_report import as_json
from qosweb.analytics.report.terminal import show
from tests.analytics.logs.truth import BEGIN_S, Log, hash_of
from tests.support.clusters import RunningCluster, make_site
from tests.support.redirects import PAGES, PIPE, SPEC, ask, sent_to_b
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from qosweb.analytics.findings import Findings

ALWAYS = "</a>.available = always\n"
WHOLE_VIEW: dict[str, object] = {
    "event": "view",
    "ts": BEGIN_S,
    "node": "n1",
    "index": 1,
    "view": "1:a",
    "members": ["n1"],
    "primary": True,
}
BAD_EVENTS: list[tuple[dict[str, object], str]] = [
    ({"ts": None}, "no field 'ts'"),
    ({"ts": -1}, "a number out of range"),
    ({"ts": "soon"}, "a field of the wrong type"),
    ({"node": None}, "no field 'node'"),
    ({"view": None}, "no field 'view'"),
    ({"members": None}, "no field 'members'"),
    ({"members": "n1"}, "a field of the wrong type"),
    ({"primary": None}, "no field 'primary'"),
    ({"primary": "perhaps"}, "a field of the wrong type"),
    ({"index": "first"}, "a field of the wrong type"),
    ({"event": "policy", "text": None}, "no field 'policy'"),
    ({"event": "policy", "policy": "p"}, "no field 'text'"),
    ({"event": "capacity"}, "no field 'capacity_bps'"),
    ({"event": "capacity", "capacity_bps": "much"}, "a field of the wrong type"),
    ({"event": "of another kind", "ts": None}, "no field 'ts'"),
]


def analysed(spark: SparkSession, *paths: Path, bad_folder: str | None = None) -> Findings:
    return analyse(
        spark,
        AnalysisRequest(sources.find(list(map(str, paths)))),
        bad_folder=bad_folder,
    )


def of_cluster(findings: Findings) -> dict[str, tuple[str, str]]:
    return {verdict.rule: (verdict.outcome, verdict.reason) for verdict in findings.cluster}


def test_two_views_with_one_index_and_a_policy_with_two_indices(spark: SparkSession, tmp_path: Path) -> None:
    log = Log(ALWAYS)
    log.view_event(BEGIN_S - 3, 1, "1:aaaa", ("n1", "n2"))
    log.event("view", BEGIN_S - 2.5, "n1", index=4, view="2:bbbb", members=["n1"], primary=True)
    log.event("view", BEGIN_S - 2.5, "n2", index=4, view="3:cccc", members=["n2"], primary=True)
    log.view_event(BEGIN_S - 2, 5, "4:dddd", ("n1", "n2"))
    other = "</a>.server_resource > 5%\n"
    for node, index in (("n1", 7), ("n2", 8)):
        log.event("policy", BEGIN_S + 1, node, index=index, policy=hash_of(other), text=other)
        log.event("capacity", BEGIN_S + 2, node, index=9, of="n1", capacity_bps=1000)
    log.run(2, {"/a": 5})
    found = analysed(spark, log.write(tmp_path / "x.log"))
    said = of_cluster(found)
    assert found.outcome == VIOLATED
    assert said[view_chain.ONE_VIEW] == (VIOLATED, said[view_chain.ONE_VIEW][1])
    assert "index 4 is view" in said[view_chain.ONE_VIEW][1]
    outcome, reason = said[view_chain.SWITCHED]
    assert outcome == VIOLATED
    assert f"policy {hash_of(other)} begins at index 7 at n1 and at 8 at n2" in reason
    assert f"index 7 switches to policy {hash_of(other)} at n1, but n2 skipped it" in reason
    assert said[view_chain.ONE_PLACE][0] == HELD
    assert said[view_chain.ONCE] == (HELD, "10 requests, each ended once")


def test_a_redirected_request_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", PAGES)
    with RunningCluster(site, tmp_path, SPEC, "ab", *PIPE) as cluster:
        b = cluster.nodes["b"]

        def follow() -> bool | None:
            """A ticket is good for a while only."""
            with b.connect() as connection:
                ask(connection, sent_to_b(cluster).target, b.url.partition("//")[2])
                assert connection.read_reply().status == 200
            return cluster.status("b")["tickets"].get("good") is not None or None

        wait_for(follow, "a ticket that is good", 60)
        for node in cluster.nodes.values():
            node.stop()
        logs = [node.access_log for node in cluster.nodes.values()]
        (rid,) = {line["rid"] for line in cluster.requests("a")} & {line["rid"] for line in cluster.requests("b")}
        decisions = [(line["node"], line["decision"]) for line in cluster.requests() if line["rid"] == rid]
    assert decisions == [("a", "redirected"), ("b", "served")]
    ended = sum(line["decision"] != "redirected" for line in cluster.requests())
    found = analysed(spark, *logs)
    assert of_cluster(found)[view_chain.ONCE] == (HELD, f"{ended} requests, each ended once")
    assert {rule for rule, (outcome, _) in of_cluster(found).items() if outcome == VIOLATED} == set()

    text = logs[0].read_text()
    assert text.count('"decision":"redirected"') >= 1
    lines = [json.loads(line) for line in text.splitlines()]
    both = [line | {"decision": "served"} if line.get("rid") == rid else line for line in lines]
    logs[0].write_text("".join(json.dumps(line) + "\n" for line in both))
    found = analysed(spark, *logs)
    outcome, reason = of_cluster(found)[view_chain.ONCE]
    assert (found.outcome, outcome) == (VIOLATED, VIOLATED)
    assert reason == f"1 requests ended more than once: {rid}: served at a, served at b"


def test_bad_event_lines(spark: SparkSession, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    log = Log(ALWAYS)
    log.lines.append(WHOLE_VIEW)
    log.event("of another kind", BEGIN_S, "n1", members=7)
    log.run(1, {"/a": 5}).write(good)
    broken = [WHOLE_VIEW | changed for changed, _ in BAD_EVENTS]
    bad.write_text("".join(json.dumps({k: v for k, v in line.items() if v is not None}) + "\n" for line in broken))
    found = analysed(spark, good, bad, bad_folder=str(tmp_path / "bad"))
    counts: dict[str, int] = {}
    for _, cause in BAD_EVENTS:
        counts[cause] = counts.get(cause, 0) + 1
    assert {cause: count for file, cause, count in found.bad if file.endswith("/bad.log")} == counts
    assert len(found.bad) == len(counts)
    assert (found.outcome, of_cluster(found)[view_chain.ONE_PLACE]) == (
        HELD,
        (HELD, "checked 1 event lines of 1 nodes"),
    )
    kept = [json.loads(line) for file in (tmp_path / "bad").glob("*.json") for line in file.read_text().splitlines()]
    assert len(kept) == len(BAD_EVENTS)
    assert all("event" in json.loads(line["line"]) for line in kept)


def test_too_many_event_lines(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (line_scan, findings):
        monkeypatch.setattr(module, "EVENTS_MAX", 3)
    log = Log(ALWAYS)
    for number in range(6):
        log.event("capacity", BEGIN_S + number, "n1", index=4 + number, of="n1", capacity_bps=1000)
    found = analysed(spark, log.run(1, {"/a": 5}).write(tmp_path / "x.log"))
    assert "the logs have more than 3 event lines: the others are ignored" in found.notes
    assert len(found.events) == 3
    assert of_cluster(found)[view_chain.SWITCHED] == (NOT_TESTED, "not all event lines were read")


def test_a_run_without_a_tested_guarantee(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without = analysed(spark, Log().run(2, {"/a": 5}).write(tmp_path / "x.log"))
    assert without.outcome == NOT_TESTED
    assert of_cluster(without)[view_chain.ONCE][0] == HELD  # which is no promise of a policy
    why = "no guarantee of a policy was tested: the logs contain no valid policy, and --spec is not given"
    assert why in without.notes
    show(without)
    shown = capsys.readouterr().out
    assert f"note: {why}\n" in shown
    assert shown.splitlines()[-1].startswith("not tested: 10 lines")
    assert shown.endswith("; no guarantee could be judged\n")
    assert as_json(without)["outcome"] == "not tested"
    assert 'Guarantees: <span class="tag untested big">not tested</span>' in page(without)
    assert why in page(without)

    idle = Log("</a>.server_resource > 50%\n").run(2, {"/a": 5})
    for line in idle.lines:
        if "rid" in line:
            line["rid"] = ""
    found = analysed(spark, idle.write(tmp_path / "y.log"))
    assert found.outcome == NOT_TESTED
    assert of_cluster(found)[view_chain.ONCE] == (NOT_TESTED, "no line that ends a request has a rid")
    assert any(note.startswith("no guarantee of a policy was tested: ") for note in found.notes)

    held = analysed(spark, Log(ALWAYS).run(2, {"/a": 5}).write(tmp_path / "z.log"))
    assert (held.outcome, held.notes) == (HELD, [])
