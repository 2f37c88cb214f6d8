"""Fast path: plain requests are recognised by their bytes, get the normal response, and no other request matches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    scratch: Path = tmp_path_factory.mktemp("plain")
    (scratch / "site").mkdir()
    (scratch / "site" / "page.txt").write_bytes(b"page")
    (scratch / "site" / "other.txt").write_bytes(b"other")
    with RunningNode(scratch / "site", scratch) as running:
        yield running


def test_the_same_head_gets_the_same_response_again(node: RunningNode) -> None:
    with node.connect() as connection:
        replies = [connection.get("/page.txt", "User-Agent: test") for _ in range(5)]
    assert {(reply.status, reply.body, reply.headers["etag"]) for reply in replies} == {
        (200, b"page", replies[0].headers["etag"])
    }


def test_a_query_does_not_matter_for_a_file(node: RunningNode) -> None:
    with node.connect() as connection:
        assert {connection.get("/page.txt?v=3").body for _ in range(4)} == {b"page"}
    paths = {line["path"] for line in node.log()}
    assert paths <= {"/page.txt"}


@pytest.mark.parametrize("target", ["/page.txt?v=3#part", "/page.txt#part", "/page.txt?v=\xe9"])
def test_a_bad_query_is_refused_however_often_it_comes(node: RunningNode, target: str) -> None:
    for _ in range(4):
        assert node.get("/page.txt").status == 200
        assert node.get(target).status == 400


@pytest.mark.parametrize(
    ("field", "status"),
    [("If-None-Match: *", 304), ("Range: bytes=0-1", 206), ('If-Match: "other"', 412), ("Expect: nothing", 417)],
)
def test_a_field_that_changes_the_answer_is_not_overlooked(node: RunningNode, field: str, status: int) -> None:
    for _ in range(4):
        assert node.get("/page.txt").status == 200
        assert node.get("/page.txt", field).status == status


def test_an_empty_host_is_refused_also_after_requests_without_one(node: RunningNode) -> None:
    for _ in range(3):
        with node.connect() as connection:
            connection.send(b"GET /page.txt HTTP/1.0\r\n\r\n")
            assert connection.read_reply().status == 200
    for _ in range(3):
        with node.connect() as connection:
            assert connection.get("/page.txt").status == 200
            connection.send(b"GET /page.txt HTTP/1.1\r\nHost:\r\n\r\n")
            assert connection.read_reply().status == 400


def test_the_authority_of_a_target_is_not_logged_for_other_requests(node: RunningNode) -> None:
    with node.connect() as connection:
        for target in (*["http://elsewhere/other.txt"] * 3, *["/other.txt"] * 3):
            assert connection.get(target).status == 200
    wait_for(lambda: len(hosts_of(node, "/other.txt")) == 6, "the lines in the log")
    assert hosts_of(node, "/other.txt") == ["elsewhere"] * 3 + ["localhost"] * 3


def hosts_of(node: RunningNode, path: str) -> list[str]:
    return [line["host"] for line in node.log() if line["path"] == path]
