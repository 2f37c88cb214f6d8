"""Range requests (RFC 9110 section 14): every byte compared, for pages in memory and files on disk."""

from __future__ import annotations

import os
import random
import re
from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw import RawConnection, Reply

MODIFIED_S = 1_700_000_000
MODIFIED = "Tue, 14 Nov 2023 22:13:20 GMT"

CONTENT = {
    "/small.txt": random.Random(1).randbytes(10_000),  # in memory
    "/middle.bin": random.Random(2).randbytes(300_000),  # from disk
    "/large.bin": random.Random(3).randbytes(12 << 20),  # from disk, more than a socket takes at once
}
every = pytest.mark.parametrize("target", list(CONTENT))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    root = tmp_path_factory.mktemp("site")
    for target, content in {**CONTENT, "/empty.txt": b""}.items():
        (root / target[1:]).write_bytes(content)
        os.utime(root / target[1:], (MODIFIED_S, MODIFIED_S))
    with RunningNode(root, tmp_path_factory.mktemp("node"), "--cache-file-max", "64KB") as node:
        yield node
        assert node.stderr[1:] == []


@pytest.fixture
def connection(node: RunningNode) -> Iterator[RawConnection]:
    """One connection for many responses: a byte too many or too few breaks the next one."""
    with node.connect() as connection:
        yield connection


def parts_of(reply: Reply, kind: str, size: int) -> list[tuple[int, bytes]]:
    """The parts of a multipart/byteranges body, each with its offset; no bytes may surround them."""
    boundary = reply.headers["content-type"].removeprefix("multipart/byteranges; boundary=").encode()
    assert re.fullmatch(rb"[0-9a-zA-Z]{16,70}", boundary)
    rest = reply.body
    parts: list[tuple[int, bytes]] = []
    while not rest.startswith(end := (b"\r\n--" if parts else b"--") + boundary + b"--\r\n"):
        head, _, rest = rest.partition(b"\r\n\r\n")
        found = re.fullmatch(
            rb"%s--%s\r\nContent-Type: %s\r\nContent-Range: bytes ([0-9]+)-([0-9]+)/%d"
            % (b"\r\n" if parts else b"", boundary, re.escape(kind.encode()), size),
            head,
        )
        assert found is not None, head
        first, last = int(found[1]), int(found[2])
        parts.append((first, rest[: last - first + 1]))
        rest = rest[last - first + 1 :]
    assert rest == end
    return parts


@every
def test_a_complete_page_has_accept_ranges(connection: RawConnection, target: str) -> None:
    reply = connection.get(target)
    assert (reply.status, reply.headers["accept-ranges"]) == (200, "bytes")
    assert reply.body == CONTENT[target]


@every
def test_single_ranges(connection: RawConnection, target: str) -> None:
    content = CONTENT[target]
    size = len(content)
    full = connection.get(target)
    for value, first, last in (
        ("0-0", 0, 0),
        ("0-1", 0, 1),
        ("1-", 1, size - 1),
        ("0-", 0, size - 1),
        (f"0-{size - 1}", 0, size - 1),
        (f"0-{size}", 0, size - 1),
        ("0-99999999999999999999999999", 0, size - 1),
        ("-1", size - 1, size - 1),
        ("-5000", size - 5000, size - 1),
        (f"-{size}", 0, size - 1),
        (f"-{size + 1}", 0, size - 1),
        (f"{size - 1}-", size - 1, size - 1),
        ("500-4999", 500, 4999),
        (" 500-4999 ,", 500, 4999),
        (f"{size // 3}-{size * 2 // 3}", size // 3, size * 2 // 3),
        ("0-99,100-199", 0, 199),  # touching: one
        ("100-199,0-149", 0, 199),  # overlapping: one
        (f"0-9,{size}-", 0, 9),  # ranges beyond the end are left out
    ):
        reply = connection.get(target, f"Range: bytes={value}")
        assert (reply.status, reply.headers["content-range"]) == (206, f"bytes {first}-{last}/{size}"), value
        assert reply.body == content[first : last + 1]
        for name in ("etag", "last-modified", "content-type", "accept-ranges"):
            assert reply.headers[name] == full.headers[name]


@every
def test_several_ranges(connection: RawConnection, target: str) -> None:
    content = CONTENT[target]
    size = len(content)
    full = connection.get(target)
    middle = size // 2
    for ranges in (
        [(0, 0), (2, 2)],
        [(0, 99), (500, 599)],
        [(500, 599), (0, 99)],  # in the order of the request
        [(0, middle - 1), (middle + 1, size - 1)],
        [(middle, size - 1), (0, middle - 2)],
        [(at * size // 16, at * size // 16 + 99) for at in range(16)],
    ):
        reply = connection.get(target, "Range: bytes=" + ",".join(f"{first}-{last}" for first, last in ranges))
        assert (reply.status, "content-range" in reply.headers) == (206, False)
        assert reply.headers["etag"] == full.headers["etag"]
        parts = parts_of(reply, full.headers["content-type"], size)
        assert parts == [(first, content[first : last + 1]) for first, last in ranges]


@every
@pytest.mark.parametrize(
    "value",
    [
        "bytes=1-0",
        "bytes=-",
        "bytes=",
        "bytes=a-b",
        "bytes=0-1;2-3",
        "bytes=0x0-0x1",
        "bytes=0-0-0",
        "bytes=--1",
        "bytes 0-1",
        "bytes",
        "lines=0-1",
        "bytes=0-1,nonsense",
        "bytes=" + ",".join(f"{at * 10}-{at * 10}" for at in range(17)),  # more than anyone needs
        "bytes=" + ",".join(["0-"] * 3),  # more than there is
    ],
)
def test_what_is_not_understood_is_ignored(connection: RawConnection, target: str, value: str) -> None:
    reply = connection.get(target, f"Range: {value}")
    assert (reply.status, "content-range" in reply.headers) == (200, False)
    assert reply.body == CONTENT[target]


@every
def test_14_2_only_get_has_ranges(connection: RawConnection, target: str) -> None:
    for value in ("bytes=0-1", "bytes=99999999999-"):
        reply = connection.get(target, f"Range: {value}", method="HEAD")
        assert (reply.status, reply.headers["content-length"]) == (200, str(len(CONTENT[target])))


@every
def test_unsatisfiable_ranges(connection: RawConnection, target: str) -> None:
    size = len(CONTENT[target])
    for value in (f"{size}-", f"{size}-{size + 5}", "99999999999999999999999-", "-0", f"{size}-,{size + 9}-"):
        reply = connection.get(target, f"Range: bytes={value}")
        assert (reply.status, reply.headers["content-range"]) == (416, f"bytes */{size}"), value
        assert reply.headers["content-type"] == "text/html; charset=utf-8"


def test_ranges_of_an_empty_page(connection: RawConnection) -> None:
    for value, status in (("0-", 416), ("0-0", 416), ("-0", 416), ("-1", 200)):
        reply = connection.get("/empty.txt", f"Range: bytes={value}")
        assert reply.status == status, value
        assert reply.headers.get("content-range") == ("bytes */0" if status == 416 else None)


@every
def test_if_range(connection: RawConnection, target: str) -> None:
    content = CONTENT[target]
    tag = connection.get(target).headers["etag"]
    for validator in (tag, MODIFIED, "Tuesday, 14-Nov-23 22:13:20 GMT"):
        reply = connection.get(target, "Range: bytes=5-9", f"If-Range: {validator}")
        assert (reply.status, reply.body) == (206, content[5:10]), validator
    for validator in ('"other"', f"W/{tag}", "*", f'{tag}, "other"', "Tue, 14 Nov 2023 22:13:21 GMT", "nonsense", ""):
        reply = connection.get(target, "Range: bytes=5-9", f"If-Range: {validator}")
        assert (reply.status, reply.body) == (200, content), validator
        reply = connection.get(target, "Range: bytes=99999999999-", f"If-Range: {validator}")
        assert reply.status == 200
    assert connection.get(target, "Range: bytes=99999999999-", f"If-Range: {tag}").status == 416
    assert connection.get(target, f"If-Range: {tag}").status == 200


@every
def test_a_download_in_pieces_is_the_file(connection: RawConnection, target: str) -> None:
    content = CONTENT[target]
    step = len(content) // 7
    got = b""
    tag = connection.get(target, method="HEAD").headers["etag"]
    while len(got) < len(content):
        reply = connection.get(target, f"Range: bytes={len(got)}-{len(got) + step - 1}", f"If-Range: {tag}")
        assert reply.status == 206
        got += reply.body
    assert got == content
