"""Failing disks, missing folders, exhausted descriptors: a correct error response, no effect on others, recovery."""

from __future__ import annotations

import os
import resource
import shutil
import urllib.error
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode
from tests.support.raw import Closed
from tests.support.sites import LARGE, write_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw import RawConnection

OPTIONS = ("--cache-fresh", "0", "--cache-file-max", "64KB", "--max-open-files", "2", "--client-share", "100%")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("house") / "site")


@pytest.fixture(scope="module")
def node(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(root, tmp_path_factory.mktemp("node"), *OPTIONS) as node:
        yield node
        assert node.stderr[1:] == []
        wait_for(lambda: node.metric("qosweb_open_files") == 0, "all files to be closed")
        wait_for(lambda: node.metric("qosweb_requests_in_service") == 0, "nobody to be left inside")


@contextmanager
def transfer(node: RunningNode, target: str = "/large.bin") -> Iterator[RawConnection]:
    """A client that requests a large file and reads only its beginning."""
    with node.connect() as connection:
        connection.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        connection._buffer = connection._recv(4096)
        assert connection._buffer.startswith(b"HTTP/1.1 200 OK\r\n")
        yield connection


def test_a_folder_that_is_removed(node: RunningNode, root: Path) -> None:
    folder = root / "folder"
    for _ in range(2):
        folder.mkdir()
        (folder / "index.html").write_text("here")
        assert node.get("/folder/").body == b"here"
        shutil.rmtree(folder)
        assert [node.get(target).status for target in ("/folder/", "/folder")] == [404, 404]


def test_a_root_that_is_moved_away_and_back(node: RunningNode, root: Path) -> None:
    with transfer(node) as busy:
        root.rename(root.with_name("moved"))
        try:
            assert [node.get(target).status for target in ("/", "/page.html", "/large.bin")] == [503, 503, 503]
            assert node.get("/").headers["retry-after"] == "1"
            with pytest.raises(urllib.error.HTTPError) as not_ready:
                node.admin("/readyz")
            with not_ready.value as answer:
                assert answer.code == 503
                assert b"is not there" in answer.read()
            root.mkdir()
            assert [node.get(target).status for target in ("/", "/page.html", "/large.bin")] == [404, 404, 404]
            root.rmdir()
        finally:
            root.with_name("moved").rename(root)
        assert len(busy.read_reply().body) == LARGE
    assert [node.get(target).status for target in ("/", "/page.html", "/large.bin")] == [200, 200, 200]


def test_a_file_truncated_while_it_is_sent(node: RunningNode, root: Path) -> None:
    page = root / "shrinking.bin"
    page.write_bytes(bytes(LARGE))
    with transfer(node, "/shrinking.bin") as connection:
        os.truncate(page, 1000)
        with pytest.raises(Closed):
            connection.read_reply()
    assert node.get("/shrinking.bin").body == bytes(1000)

    def noted() -> list[dict[str, object]]:
        return [line for line in node.log() if (line["path"], line["decision"]) == ("/shrinking.bin", "failed")]

    (line,) = wait_for(noted, "the failure in the log")
    assert isinstance(line["bytes"], int)
    assert 0 < line["bytes"] < LARGE


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that cannot be read")
def test_a_disk_that_fails(tmp_path: Path) -> None:
    """Files of the kernel: one whose first byte is an I/O error, and one that is longer than its size."""
    with RunningNode(Path("/proc/self"), tmp_path) as node, node.connect() as connection:
        for errors in (1, 2, 3):
            reply = connection.get("/mem")
            assert (reply.status, "retry-after" in reply.headers) == (500, False)
            assert b"disk failed" in reply.body
            assert node.metric("qosweb_disk_errors_total") == errors
        reply = connection.get("/status")
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert node.metric("qosweb_responses_total", status="500") == 3
        assert node.stderr[1:] == []


def test_too_many_files_open(node: RunningNode) -> None:
    """--max-open-files is 2."""
    with transfer(node) as first, transfer(node), node.connect() as third:
        for _ in range(2):
            reply = third.get("/large.bin")
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert third.get("/large.bin", "Range: bytes=5-9").status == 503
        assert third.get("/large.bin", method="HEAD").status == 200  # needs no file
        assert third.get("/large.bin", "If-None-Match: *").status == 304
        assert third.get("/page.html").status == 200  # is in memory
        assert len(first.read_reply().body) == LARGE
        assert len(third.get("/large.bin").body) == LARGE
    wait_for(lambda: node.metric("qosweb_open_files") == 0, "the files of clients that went away to be closed")
    assert len(node.get("/large.bin").body) == LARGE


def descriptors(pid: int) -> set[int]:
    return {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}


def opened(pid: int, name: str) -> bool:
    """Whether the process has a file of this name open."""
    return any(one.name == name for one in (Path(f"/proc/{pid}/fd/{number}").resolve() for number in descriptors(pid)))


@contextmanager
def descriptors_left(node: RunningNode, number: int) -> Iterator[None]:
    """Let the process open only ``number`` more files."""
    pid = node.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = descriptors(pid)
    limit = next(islice((free for free in count() if free not in used), number, None))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limits of another process cannot be set")
def test_no_descriptor_left(node: RunningNode) -> None:
    with node.connect() as connection:
        assert connection.get("/page.html").status == 200
        assert len(connection.get("/large.bin").body) == LARGE
        wait_for(lambda: not opened(node.process.pid, "large.bin"), "the file to be closed")
        with descriptors_left(node, 0):
            for target in ("/index.html", "/large.bin"):
                reply = connection.get(target)
                assert (reply.status, reply.headers["retry-after"]) == (503, "1"), target
            with pytest.raises((Closed, TimeoutError)), node.connect(timeout_s=0.5) as newcomer:
                newcomer.get("/page.html")  # turned away, or not heard
        assert connection.get("/index.html").status == 200
        assert len(connection.get("/large.bin").body) == LARGE
    assert node.get("/page.html").status == 200


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limits of another process cannot be set")
def test_one_descriptor_left(node: RunningNode, root: Path) -> None:
    """Enough for the file; the sender then uses no duplicate of the connection's descriptor."""
    expected = (root / "large.bin").read_bytes()
    with node.connect() as connection:
        assert connection.get("/large.bin").body == expected
        with descriptors_left(node, 1):
            assert connection.get("/large.bin").body == expected
            assert connection.get("/large.bin", "Range: bytes=7-").body == expected[7:]
            assert connection.get("/page.html").status == 200
        assert connection.get("/large.bin").body == expected
