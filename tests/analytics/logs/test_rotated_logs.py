"""Parts of rotated logs of a real cluster: each part names its policy, view and capacities, and can be judged alone."""

from __future__ import annotations

import json
import urllib.request
from signal import Signals
from typing import TYPE_CHECKING, Any

import pytest

from qosweb.analytics.analysis import analyse
from qosweb.analytics.command import exit_code
from qosweb.analytics.read import sources
from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED, AnalysisRequest
from tests.analytics.logs.truth import BEGIN_S, Log
from tests.support.clusters import RunningCluster, make_site
from tests.support.load import burst
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from qosweb.analytics.findings import Findings
    from tests.support.nodes import RunningNode

SPEC = "</a>.available = always\n"
EVENING = "</a>.available = always\n</b>.server_resource < 20%\n"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def judged(spark: SparkSession, *paths: Path) -> Findings:
    return analyse(spark, AnalysisRequest(sources.find(list(map(str, paths)))))


def logged(node: RunningNode) -> int:
    """Number of requests in all log files of a node."""
    files = node.access_log.parent.glob("access.log*")
    return sum(file.read_text().count('"decision"') for file in files)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Log files of two nodes, the oldest first: rotated by size, then by SIGUSR1 after the policy was changed."""
    folder = tmp_path_factory.mktemp("rotated")
    site = make_site(folder / "site", {"a": 16, "b": 16})
    options = ["--access-log-rotate", "64KB", "--access-log-keep", "50", "--capacity", "10MB/s"]
    with RunningCluster(site, folder, SPEC, "ab", *options) as cluster:
        nodes = cluster.nodes
        for count in (1000, 2000, 3000):  # the log is written and rotated in parts
            for node in nodes.values():
                burst(node.port, 1000, "/a/page")
                wait_for(lambda node=node, count=count: logged(node) >= count or None, "the lines")  # type: ignore[misc]
        request = urllib.request.Request(
            f"http://127.0.0.1:{nodes['a'].admin_port}/policy", data=EVENING.encode(), method="PUT"
        )
        with urllib.request.urlopen(request, timeout=20) as reply:
            assert reply.status == 200
        for name, node in nodes.items():
            wait_for(lambda name=name: len(cluster.events(name, "policy")) > 1 or None, f"the policy at {name}")  # type: ignore[misc]
            node.access_log.rename(node.access_log.with_suffix(".moved"))
            node.kill(Signals.SIGUSR1)
            wait_for(node.access_log.exists, "a new file")
            burst(node.port, 100, "/a/page")
        for node in nodes.values():  # a node that ends reports a capacity of 0
            assert node.stop() == 0
    found = {}
    for name, node in nodes.items():
        rotated = sorted(node.access_log.parent.glob("access.log.[0-9]*"), key=lambda path: -int(path.suffix[1:]))
        found[name] = [*rotated, node.access_log.with_suffix(".moved"), node.access_log]
    return found


def test_each_file_begins_with_the_events_in_force(parts: dict[str, list[Path]]) -> None:
    for name, files in parts.items():
        assert len(files) > 3
        in_force: dict[tuple[str, str], dict[str, Any]] = {}
        for file in files:
            told = lines(file)
            copies = [line for line in told if line.get("repeated")]
            assert told[: len(copies)] == copies, "only at the beginning"
            of_heading = {(line["event"], line.get("of", "")): line for line in copies}
            assert len(of_heading) == len(copies)
            assert of_heading == {what: line | {"repeated": True} for what, line in in_force.items()}, (name, file)
            in_force |= {(line["event"], line.get("of", "")): line for line in told[len(copies) :] if "event" in line}
        assert {what for what, _ in in_force} == {"policy", "view", "capacity", "resource"}
        assert [line["text"] for line in lines(files[-1]) if "text" in line] == [EVENING]


def test_any_part_is_judged_by_its_policy(spark: SparkSession, parts: dict[str, list[Path]]) -> None:
    for part in (parts["a"][2], parts["b"][-1]):
        found = judged(spark, part)
        assert (found.outcome, found.notes, len(found.policies)) == (HELD, [], 1), part
        requests = [line for line in lines(part) if "event" not in line]
        assert found.lines == len(requests)
        assert {row.known_bps for row in found.capacity[:1]} == {20 << 20}


def test_copies_count_once_and_missing_files_accuse_nobody(spark: SparkSession, parts: dict[str, list[Path]]) -> None:
    whole = judged(spark, *parts["a"], *parts["b"])
    assert not [event for event in whole.events if event.repeated]
    originals = sum(
        "event" in line and "repeated" not in line for of in parts.values() for f in of for line in lines(f)
    )
    assert len(whole.events) == originals
    assert {verdict.outcome for verdict in whole.cluster} == {HELD}
    for some in ([*parts["a"], parts["b"][-1]], [parts["a"][1], parts["b"][-1]]):
        found = judged(spark, *some)
        assert [verdict for verdict in found.cluster if verdict.outcome == VIOLATED] == []
        assert any(event.repeated for event in found.events)


def test_a_part_without_its_policy_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """Logs of earlier versions: their parts lack the events."""
    log = Log(SPEC).run(2, {"/a": 5})
    found = judged(spark, log.write(tmp_path / "a.log.1", lambda line: "event" not in line))
    assert found.outcome == NOT_TESTED
    why = "the policies of the requests are in none of these logs; add the earlier logs, or give --spec"
    assert f"no guarantee of a policy was tested: {why}" in found.notes
    assert (exit_code(found, strict=False), exit_code(found, strict=True)) == (0, 3)
    judged_after_all = judged(spark, log.write(tmp_path / "a.log"))
    assert exit_code(judged_after_all, strict=True) == 0


def test_copies_alone_are_events(spark: SparkSession, tmp_path: Path) -> None:
    log = Log(SPEC).run(2, {"/a": 5})
    log.event("view", BEGIN_S - 9, "n1", index=1, view="1:aaaa", members=["n1", "n2"], primary=True)
    for line in log.lines:
        if "event" in line:
            line["repeated"] = True
    twice = [log.write(tmp_path / name) for name in ("a", "b")]  # as at the beginning of two files
    found = judged(spark, twice[0])
    again = judged(spark, *twice)
    assert sorted(found.events) == sorted(again.events)
    assert {event.repeated for event in found.events} == {True}
