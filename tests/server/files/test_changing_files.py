"""Files that change while they are served: each complete response is one version, and none is too old."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode
from tests.support.raw import Closed, RawConnection
from tests.support.versions import (
    Readers,
    overwrite,
    recreate,
    replace,
    rewrite,
    stamped,
    version_of,
    write_versions,
)
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FRESH_S = 0.1
SMALL, MIDDLE, LARGE = 4 << 10, 256 << 10, 12 << 20  # in memory; on disk; on disk, beyond what a socket buffers
VERSIONS = 40
EVERY_S = 0.025


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def node(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    options = ("--cache-file-max", "64KB", "--cache-fresh", f"{FRESH_S}s")
    with RunningNode(root, tmp_path_factory.mktemp("node"), *options) as node:
        yield node
        assert node.stderr[1:] == []
        wait_for(lambda: node.metric("qosweb_open_files") == 0, "all files to be closed")
        wait_for(lambda: node.metric("qosweb_requests_in_service") == 0, "nobody to be left inside")


@pytest.mark.parametrize(
    ("change", "size"),
    [
        (replace, SMALL),
        (replace, MIDDLE),
        (recreate, SMALL),
        (recreate, MIDDLE),
        (rewrite, SMALL),
        (rewrite, MIDDLE),
        (overwrite, SMALL),  # a larger file takes a while to write, with an unknown end
    ],
)
def test_versions_are_complete_in_order_and_in_time(
    node: RunningNode, root: Path, size: int, change: Callable[[Path, bytes], None]
) -> None:
    page = root / f"{change.__name__}-{size}.txt"
    page.write_bytes(stamped(0, size))
    with Readers(node.port, f"/{page.name}") as readers:
        done_at = write_versions(page, size, change, VERSIONS, EVERY_S)
        wait_for(lambda: set(readers.latest) == {VERSIONS}, "the last version everywhere")

    by_tag: dict[str, tuple[int | None, int]] = {}
    for mine in readers.seen:
        latest = 0
        for seen in mine:
            if seen.status != 200:
                assert seen.status == 503 or (seen.status == 404 and change is recreate)
                continue
            assert by_tag.setdefault(seen.tag, (seen.version, seen.size)) == (seen.version, seen.size)
            assert seen.size == size or change is rewrite  # emptied, and not yet written: true at that moment
            if seen.version is None:
                continue
            assert latest <= seen.version
            latest = seen.version
            if latest < VERSIONS:
                assert seen.asked_at <= done_at[latest + 1] + FRESH_S, f"version {latest} is too old"
    assert len({version for version, _ in by_tag.values()}) > 3
    if size == SMALL or change is not rewrite:
        assert readers.broken == 0


def test_fresh_of_zero_is_never_stale(root: Path, tmp_path: Path) -> None:
    """Not even by the duration of a read that other requests already wait for."""
    page = root / "always.txt"
    page.write_bytes(stamped(0, SMALL))
    with RunningNode(root, tmp_path, "--cache-fresh", "0") as node, Readers(node.port, "/always.txt", 6) as readers:
        done_at = write_versions(page, SMALL, replace, VERSIONS, EVERY_S)
        wait_for(lambda: set(readers.latest) == {VERSIONS}, "the last version everywhere")
    for seen in (seen for mine in readers.seen for seen in mine):
        if seen.version is None:
            assert seen.status == 503  # replaced under every attempt to read it: nothing stale either
            continue
        assert seen.version == VERSIONS or seen.asked_at <= done_at[seen.version + 1], f"{seen.version} is too old"


def test_a_change_with_the_same_size_and_mtime_is_noticed(node: RunningNode, root: Path) -> None:
    """Same size, modification time set back, long after the last change."""
    pages = {root / "hides.txt": SMALL, root / "hides.bin": MIDDLE}

    def write(version: int) -> None:
        for page, size in pages.items():
            page.touch()
            overwrite(page, stamped(version, size))
            os.utime(page, (10**9, 10**9))

    def versions() -> list[int]:
        return [version_of(node.get(f"/{page.name}").body) for page in pages]

    def are_only_looked_at() -> bool:
        before = node.metric("qosweb_cache_misses_total")
        pass_time(FRESH_S)
        return versions() == [0, 0] and node.metric("qosweb_cache_misses_total") == before

    write(0)
    wait_for(are_only_looked_at, "the pages to settle")
    write(1)
    pass_time(FRESH_S)
    assert versions() == [1, 1]


def pass_time(seconds: float) -> None:
    """Wait until cached pages are no longer fresh."""
    end = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > end, "time to pass", 20 + seconds)


def begin(node: RunningNode, target: str, *fields: str) -> RawConnection:
    """A client that sends a request, reads the first bytes of the response, and stops reading."""
    connection = node.connect()
    lines = [f"GET {target} HTTP/1.1", "Host: localhost", *fields, "", ""]
    connection.send("\r\n".join(lines).encode())
    connection._buffer += connection._recv(4096)
    return connection


@pytest.mark.parametrize("change", [replace, recreate, lambda page, _: page.unlink()])
def test_a_transfer_goes_on_with_the_version_it_began_with(
    node: RunningNode, root: Path, change: Callable[[Path, bytes], None]
) -> None:
    page = root / "replaced.bin"
    page.write_bytes(stamped(0, LARGE))
    with begin(node, "/replaced.bin") as old:
        change(page, stamped(1, LARGE))
        pass_time(FRESH_S)
        new = node.get("/replaced.bin")
        assert new.status == 404 if not page.exists() else version_of(new.body) == 1
        assert old.read_reply().body == stamped(0, LARGE)


@pytest.mark.parametrize("fields", [(), ("Range: bytes=1-",), ("Range: bytes=0-8388607,9000000-",)])
@pytest.mark.parametrize("change", [overwrite, rewrite, lambda page, _: os.truncate(page, LARGE // 2)])
def test_a_file_overwritten_while_it_is_sent_breaks_the_connection(
    node: RunningNode, root: Path, change: Callable[[Path, bytes], None], fields: tuple[str, ...]
) -> None:
    page = root / "overwritten.bin"
    replace(page, stamped(0, LARGE))
    settle(page)
    with begin(node, "/overwritten.bin", *fields) as connection:
        change(page, stamped(1, LARGE))
        with pytest.raises(Closed):
            connection.read_reply()
    wait_for(lambda: node.metric("qosweb_open_files") == 0, "the file to be closed")


def settle(page: Path) -> None:
    """Wait until a further change cannot have the same times."""
    wait_for(lambda: time.time() - page.stat().st_ctime > 0.03, "time to pass")


def test_bytes_in_the_buffers_of_a_slow_client_do_not_change(node: RunningNode, root: Path) -> None:
    """The server is done, the client has read nothing yet, and the file is overwritten."""
    page = root / "buffered.bin"
    replace(page, stamped(0, 1 << 20))
    settle(page)
    with begin(node, "/buffered.bin") as connection:
        wait_for(lambda: node.metric("qosweb_open_files") == 0, "all of it to be sent")
        overwrite(page, stamped(1, 1 << 20))
        assert connection.read_reply().body == stamped(0, 1 << 20)
