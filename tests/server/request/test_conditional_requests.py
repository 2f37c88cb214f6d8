"""Conditional requests and validators (RFC 9110 sections 8.8 and 13), for pages in memory and files on disk."""

from __future__ import annotations

import os
import random
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.raw import Reply

MODIFIED_S = 1_700_000_000
MODIFIED = "Tue, 14 Nov 2023 22:13:20 GMT"
BEFORE = "Tue, 14 Nov 2023 22:13:19 GMT"
AFTER = "Tue, 14 Nov 2023 22:13:21 GMT"
MODIFIED_RFC_850 = "Tuesday, 14-Nov-23 22:13:20 GMT"
MODIFIED_ASCTIME = "Tue Nov 14 22:13:20 2023"

SMALL, LARGE = "/small.txt", "/large.bin"
both = pytest.mark.parametrize("target", [SMALL, LARGE])


def write(path: Path, content: bytes, modified_s: float = MODIFIED_S) -> None:
    path.write_bytes(content)
    os.utime(path, (modified_s, modified_s))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    write(root / SMALL[1:], b"small " * 100)
    write(root / LARGE[1:], random.Random(1).randbytes(200_000))
    write(root / "empty.txt", b"")
    return root


def start(root: Path, scratch: Path) -> RunningNode:
    return RunningNode(root, scratch, "--cache-file-max", "64KB", "--cache-fresh", "50ms")


@pytest.fixture(scope="module")
def node(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with start(root, tmp_path_factory.mktemp("node")) as node:
        yield node
        assert node.stderr[1:] == []


def status_of(node: RunningNode, target: str, *fields: str, method: str = "GET") -> int:
    """The status; the rest of the response must match it."""
    full = node.get(target)
    reply = node.get(target, *fields, method=method)
    if reply.status == 200 and method == "GET":
        assert reply.body == full.body
    if reply.status == 304:
        assert_is_empty_and_tells_the_version(reply, full)
    return reply.status


def assert_is_empty_and_tells_the_version(reply: Reply, full: Reply) -> None:
    assert set(reply.headers) == {"date", "server", "etag", "last-modified"}
    assert all(reply.headers[name] == full.headers[name] for name in ("etag", "last-modified"))


@both
def test_validators_are_strong_and_say_when(node: RunningNode, target: str) -> None:
    reply = node.get(target)
    assert reply.headers["last-modified"] == MODIFIED
    tag = reply.headers["etag"]
    assert tag[0] == tag[-1] == '"'
    assert len(tag) > 10
    assert node.get(target, method="HEAD").headers["etag"] == tag


@both
def test_validators_outlive_the_process(node: RunningNode, root: Path, tmp_path: Path, target: str) -> None:
    with start(root, tmp_path) as other:
        assert other.get(target).headers["etag"] == node.get(target).headers["etag"]


def test_tags_of_pages_in_memory_depend_on_the_content_alone(node: RunningNode, root: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    write(tmp_path / "site" / "renamed.html", (root / SMALL[1:]).read_bytes(), MODIFIED_S + 1000)
    with start(tmp_path / "site", tmp_path) as other:
        here, there = node.get(SMALL), other.get("/renamed.html")
    assert here.headers["etag"] == there.headers["etag"]
    assert here.headers["last-modified"] != there.headers["last-modified"]


def test_tags_of_large_files_are_equal_for_equal_size_and_time(node: RunningNode, root: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    write(tmp_path / "site" / "copied.bin", (root / LARGE[1:]).read_bytes())
    write(tmp_path / "site" / "touched.bin", (root / LARGE[1:]).read_bytes(), MODIFIED_S + 0.001)
    with start(tmp_path / "site", tmp_path) as other:
        assert other.get("/copied.bin").headers["etag"] == node.get(LARGE).headers["etag"]
        assert other.get("/touched.bin").headers["etag"] != node.get(LARGE).headers["etag"]


def test_last_modified_is_never_in_the_future(node: RunningNode, root: Path) -> None:
    """8.8.2.1: Last-Modified must not be later than Date."""
    write(root / "future.txt", b"from the future", 4_000_000_000)
    headers = node.get("/future.txt").headers
    assert parsedate_to_datetime(headers["last-modified"]) <= parsedate_to_datetime(headers["date"])


@both
def test_if_none_match(node: RunningNode, target: str) -> None:
    tag = node.get(target).headers["etag"]
    for value in (tag, f"W/{tag}", "*", f'"other", {tag}', f'{tag} ,W/"x,y"', f', ,"a,b",{tag},'):
        for method in ("GET", "HEAD"):
            assert status_of(node, target, f"If-None-Match: {value}", method=method) == 304, value
    for value in ('"other"', 'W/"other"', tag.strip('"'), f'"{tag}', "", f"{tag} {tag}", "W/*"):
        assert status_of(node, target, f"If-None-Match: {value}") == 200, value
    assert status_of(node, target, 'If-None-Match: "other"', f"If-None-Match: {tag}") == 304


@both
@pytest.mark.parametrize("date", [MODIFIED, MODIFIED_RFC_850, MODIFIED_ASCTIME, AFTER])
def test_not_modified_since(node: RunningNode, target: str, date: str) -> None:
    assert status_of(node, target, f"If-Modified-Since: {date}") == 304
    assert status_of(node, target, f"If-Modified-Since: {date}", method="HEAD") == 304
    assert status_of(node, target, f"If-Unmodified-Since: {date}") == 200


@both
@pytest.mark.parametrize("date", [BEFORE, "Tuesday, 14-Nov-23 22:13:19 GMT", "Tue Nov 14 22:13:19 2023"])
def test_modified_since(node: RunningNode, target: str, date: str) -> None:
    assert status_of(node, target, f"If-Modified-Since: {date}") == 200
    assert status_of(node, target, f"If-Unmodified-Since: {date}") == 412


@pytest.mark.parametrize("date", ["yesterday", "", "0", "Tue, 31 Feb 2023 00:00:00 GMT", f"{MODIFIED}, {MODIFIED}"])
def test_an_invalid_date_is_no_condition(node: RunningNode, date: str) -> None:
    assert status_of(node, SMALL, f"If-Modified-Since: {date}") == 200
    assert status_of(node, SMALL, f"If-Unmodified-Since: {date}") == 200


@both
def test_if_match(node: RunningNode, target: str) -> None:
    tag = node.get(target).headers["etag"]
    for value in (tag, "*", f'"other", {tag}'):
        assert status_of(node, target, f"If-Match: {value}") == 200, value
    for value in ('"other"', f"W/{tag}", "", tag.strip('"')):
        assert status_of(node, target, f"If-Match: {value}") == 412, value


@both
def test_13_2_2_precedence(node: RunningNode, target: str) -> None:
    tag = node.get(target).headers["etag"]
    for fields, status in (
        ((f"If-None-Match: {tag}", f"If-Modified-Since: {BEFORE}"), 304),
        (('If-None-Match: "other"', f"If-Modified-Since: {AFTER}"), 200),
        ((f"If-Match: {tag}", f"If-Unmodified-Since: {BEFORE}"), 200),
        (('If-Match: "other"', f"If-Unmodified-Since: {AFTER}"), 412),
        ((f"If-Match: {tag}", f"If-None-Match: {tag}"), 304),
        (('If-Match: "other"', f"If-None-Match: {tag}"), 412),
        ((f"If-Unmodified-Since: {BEFORE}", f"If-None-Match: {tag}"), 412),
        ((f"If-None-Match: {tag}", "Range: bytes=0-1"), 304),
        (('If-Match: "other"', "Range: bytes=0-1"), 412),
        (('If-None-Match: "other"', "Range: bytes=0-1"), 206),
        ((f"If-Match: {tag}", "Range: bytes=999999999-"), 416),
    ):
        assert status_of(node, target, *fields) == status, fields


def test_a_404_ignores_conditions(node: RunningNode) -> None:
    for condition in ("If-Match: *", "If-None-Match: *", f"If-Modified-Since: {AFTER}"):
        assert status_of(node, "/nothing", condition) == 404


def test_a_304_keeps_the_connection(node: RunningNode) -> None:
    """The next response begins right after the empty line."""
    with node.connect() as connection:
        for _ in range(3):
            assert connection.get(SMALL, "If-None-Match: *").status == 304
            assert connection.get(SMALL).status == 200


def test_an_empty_page_has_validators_too(node: RunningNode) -> None:
    reply = node.get("/empty.txt")
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "0")
    assert status_of(node, "/empty.txt", f"If-None-Match: {reply.headers['etag']}") == 304


@both
def test_a_changed_page_has_another_tag(node: RunningNode, root: Path, target: str) -> None:
    changing = root / f"changing-{target[1:]}"
    content = (root / target[1:]).read_bytes()
    write(changing, content)
    with node.connect() as connection:
        old = connection.get(f"/{changing.name}").headers["etag"]
        write(changing, content[:-1] + b"!", MODIFIED_S + 1)

        def news() -> Reply | None:
            reply = connection.get(f"/{changing.name}", f"If-None-Match: {old}")
            return reply if reply.status != 304 else None

        reply = wait_for(news, "the change to be noticed")
    assert reply.body == content[:-1] + b"!"
    assert reply.headers["etag"] != old
    assert reply.headers["last-modified"] == AFTER
