"""Admission comes before the page lookup: a denial costs no disk access, and a 404 counts in its class."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from qosweb.admission.gate import HEAD_BYTES
from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.raw import Reply

SPEC = """\
set lifetime = 20ms
</few>.num_requests < 1
</dir>.server_resource > 10%
</gone>.server_resource > 10%
</large>.server_resource > 10%
"""
FILES = 30
LARGE = 300_000


@pytest.fixture
def site(tmp_path: Path) -> Path:
    root = tmp_path / "site"
    for folder in ("few", "dir/sub", "large"):
        (root / folder).mkdir(parents=True)
    for number in range(FILES):
        (root / "few" / f"{number}.html").write_text("page")
        (root / "large" / f"{number}.bin").write_bytes(b"x" * LARGE)
    return root


def running(site: Path, scratch: Path, spec: str = SPEC, *options: str) -> RunningNode:
    (scratch / "site.webqos").write_text(spec)
    return RunningNode(site, scratch, "--spec", str(scratch / "site.webqos"), *options)


def lookups(node: RunningNode) -> int:
    return int(node.metric("qosweb_cache_misses_total"))


def class_of(node: RunningNode, name: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(node.admin("/status"))["classes"][name]
    return found


def by_status(replies: list[Reply]) -> dict[int, int]:
    statuses = [reply.status for reply in replies]
    return {status: statuses.count(status) for status in set(statuses)}


def test_a_request_that_is_denied_costs_no_disk_lookup(site: Path, tmp_path: Path) -> None:
    with running(site, tmp_path) as node:
        found = by_status([node.get(f"/few/{number}.html") for number in range(FILES)])
        assert found.keys() == {200, 503}
        assert lookups(node) == found[200]


def test_a_rule_on_files_has_them_looked_up_first(site: Path, tmp_path: Path) -> None:
    spec = SPEC + "size > 100KB => </large>.num_requests < 1 as heavy\n"
    with running(site, tmp_path, spec) as node:
        replies = [node.get(f"/large/{number}.bin") for number in range(FILES)]
        assert {reply.headers["qos-class"] for reply in replies} == {"heavy"}
        assert by_status(replies).keys() == {200, 503}
        assert lookups(node) == FILES


def test_a_404_counts_in_its_class(site: Path, tmp_path: Path) -> None:
    with running(site, tmp_path) as node:
        for path, status in (("/gone/page", 404), ("/dir/sub", 301), ("/dir/", 404)):
            reply = node.get(path)
            assert (reply.status, reply.headers["qos-decision"]) == (status, "served")
        lines = wait_for(lambda: node.log() if len(node.log()) == 3 else None, "the log")
        assert [(line["path"], line["class"], line["decision"], line["status"]) for line in lines] == [
            ("/gone/page", "/gone", "served", 404),
            ("/dir/sub", "/dir", "served", 301),
            ("/dir/", "/dir", "served", 404),
        ]
        wait_for(lambda: class_of(node, "/gone")["cluster"]["started"] == 1 or None, "the engine to know")
        assert class_of(node, "/dir")["cluster"]["started"] == 2
        assert node.metric("qosweb_requests_in_service") == 0
        found = by_status([node.get("/few/gone.html") for _ in range(FILES)])
        assert found.keys() == {404, 503}  # and is bounded with it


def test_a_file_that_is_not_in_memory_is_charged_with_its_real_size(site: Path, tmp_path: Path) -> None:
    with running(site, tmp_path, SPEC + "set channel = 1MB in 100ms\n", "--capacity", "100MB/s") as node:
        assert len(node.get("/large/0.bin").body) == LARGE
        cost = HEAD_BYTES + LARGE
        wait_for(lambda: class_of(node, "/large")["cluster"]["started_bytes"] == cost or None, "settlement")
        node.get("/large/1.bin", method="HEAD")
        node.get("/large/gone.bin")
        wait_for(lambda: class_of(node, "/large")["cluster"]["started"] == 3 or None, "the engine to know")
        body = len(node.get("/large/gone.bin").body)
        cost += 3 * HEAD_BYTES + 2 * body
        wait_for(lambda: class_of(node, "/large")["cluster"]["started_bytes"] == cost or None, "settlement")


def test_a_response_time_is_kept_for_a_file_that_was_not_in_memory(site: Path, tmp_path: Path) -> None:
    """Its channel follows the size: at the rate for a mean request it would take 18 times as long."""
    spec = "set channel = 1KB in 1s\n</large>.response_time < 500ms\n"
    with running(site, tmp_path, spec, "--capacity", "100MB/s") as node:
        assert len(node.get("/large/0.bin").body) == LARGE
        line = wait_for(lambda: next(iter(node.log()), None), "the log")
        assert float(str(line["service_ms"])) < 5_000


def test_pages_in_memory_that_are_denied_count_as_accessed(site: Path, tmp_path: Path) -> None:
    spec = SPEC + "shadow </few>.num_requests < 7\n"
    with running(site, tmp_path, spec) as node:
        replies = [node.get("/few/0.html") for _ in range(FILES)]
        assert by_status(replies).keys() == {200, 503}
        assert replies[0].status == 200
        assert node.metric("qosweb_shadow_requests_total", statement="shadow </few>.num_requests < 7") == FILES
        node.get("/few/gone.html")
        assert node.metric("qosweb_shadow_requests_total", statement="shadow </few>.num_requests < 7") == FILES
