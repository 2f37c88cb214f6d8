"""Page cache under memory pressure: its memory is bounded, used pages stay, one read serves all waiting requests."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CACHE = 256 << 10
PAGES = {f"/{at}.txt": random.Random(at).randbytes(500 + 97 * at) for at in range(150)}  # some 1.2 MB


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    for target, content in PAGES.items():
        (root / target[1:]).write_bytes(content)
    return root


@pytest.fixture(scope="module")
def node(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    options = ("--cache-size", str(CACHE), "--cache-fresh", "1h")
    with RunningNode(root, tmp_path_factory.mktemp("node"), *options) as node:
        yield node
        assert node.stderr[1:] == []


def misses(node: RunningNode) -> float:
    return node.metric("qosweb_cache_misses_total")


def test_memory_is_bounded_and_the_bytes_are_right(node: RunningNode) -> None:
    targets = list(PAGES) * 3
    random.Random(1).shuffle(targets)
    most = 0.0
    with node.connect() as connection:
        for at, target in enumerate(targets):
            assert connection.get(target).body == PAGES[target]
            if at % 25 == 0:
                most = max(most, node.metric("qosweb_cache_bytes"))
                assert most <= CACHE
    assert most > CACHE / 2
    assert node.metric("qosweb_cache_evictions_total") > 100
    assert 0 < node.metric("qosweb_cache_pages") < len(PAGES)


def test_a_page_in_use_stays(node: RunningNode) -> None:
    hot, *cold = list(PAGES)[60:]
    read_again = 0.0
    with node.connect() as connection:
        assert connection.get(hot).status == 200
        before = misses(node)
        for target in cold:
            assert connection.get(target).status == 200
            after_cold = misses(node)
            assert connection.get(hot).body == PAGES[hot]
            read_again += misses(node) - after_cold
        assert misses(node) - before > len(cold) / 2
    assert read_again == 0


def test_a_page_larger_than_the_cache_is_served_and_not_kept(node: RunningNode, root: Path) -> None:
    for size in (CACHE // 2, CACHE - 100, CACHE, CACHE + 1, 4 * CACHE):
        content = random.Random(size).randbytes(size)
        (root / f"{size}.bin").write_bytes(content)
        for _ in range(2):
            assert node.get(f"/{size}.bin").body == content
        assert node.metric("qosweb_cache_bytes") <= CACHE


def test_no_memory_at_all(root: Path, tmp_path: Path) -> None:
    (root / "empty.txt").touch()
    with RunningNode(root, tmp_path, "--cache-size", "0") as node, node.connect() as connection:
        for target, content in [*PAGES.items(), ("/empty.txt", b"")]:
            reply = connection.get(target)
            assert (reply.status, reply.body) == (200, content)
            again = connection.get(target, f"If-None-Match: {reply.headers['etag']}")
            assert again.status in (200, 304)  # the tag of a file that is moments old changes once, when it settles
        assert connection.get("/9.txt", "Range: bytes=3-5").body == PAGES["/9.txt"][3:6]
        assert node.metric("qosweb_cache_bytes") == node.metric("qosweb_cache_pages") == 0


@pytest.mark.parametrize("size", [1000, 2 << 20])
def test_one_read_serves_all_waiting_requests(node: RunningNode, root: Path, size: int) -> None:
    """The page is new, which makes the first read wait a little."""
    content = random.Random(size).randbytes(size)
    with ExitStack() as stack:
        clients = [stack.enter_context(node.connect()) for _ in range(40)]
        for client in clients:
            assert client.get("/0.txt").status == 200
        before = misses(node)
        (root / f"cold-{size}.bin").write_bytes(content)
        for client in clients:
            client.send(f"GET /cold-{size}.bin HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        for client in clients:
            assert client.read_reply().body == content
    assert misses(node) - before == 1


def test_a_client_that_disconnects_does_not_affect_others(node: RunningNode, root: Path) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(node.connect()) for _ in range(40)]
        before = misses(node)
        (root / "leaving.txt").write_bytes(b"still here")
        for client in clients:
            client.send(b"GET /leaving.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for client in clients[::2]:
            client.close()
        for client in clients[1::2]:
            assert client.read_reply().body == b"still here"
    assert misses(node) - before == 1
    wait_for(lambda: node.metric("qosweb_requests_in_service") == 0, "nobody to be left inside")


def test_a_deleted_page_frees_its_memory(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    pages = [tmp_path / "site" / f"{at}.txt" for at in range(30)]
    with RunningNode(tmp_path / "site", tmp_path, "--cache-fresh", "0") as node, node.connect() as connection:
        for _ in range(2):
            for page in pages:
                page.write_bytes(bytes(5000))
            for page in pages:
                assert connection.get(f"/{page.name}").status == 200
            assert node.metric("qosweb_cache_pages") == 30
            assert node.metric("qosweb_cache_bytes") > 30 * 5000
            for page in pages:
                page.unlink()
                assert connection.get(f"/{page.name}").status == 404
            assert node.metric("qosweb_cache_bytes") == node.metric("qosweb_cache_pages") == 0
