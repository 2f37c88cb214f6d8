"""Response heads of upstream servers: framing is read strictly, field lines pass as they came, caches are bounded."""

from __future__ import annotations

import pytest

from qosweb.http.field_lines import LINES_MAX
from qosweb.http.upstream_heads import BadUpstreamHead, UpstreamHead, UpstreamHeads


def read(*lines: bytes, status: bytes = b"HTTP/1.1 200 OK") -> UpstreamHead:
    heads = UpstreamHeads(b"n1")
    first = heads.read(b"\r\n".join([status, *lines, b"", b""]))
    assert heads.read(b"\r\n".join([status, *lines, b"", b""])) == first  # from the cache of lines
    return first


def test_a_head_passes_with_via_and_without_fields_of_one_hop() -> None:
    head = read(
        b"Server: x", b"Connection: X-Hop, keep-alive", b"x-hop: 1", b"Keep-Alive: timeout=5", b"Via: 1.1 far",
        b"Set-Cookie: a\xff=b", b"Set-Cookie: c=d", b"Content_Length: 7", b"Content-Length:  005 ", b"Trailer: X",
    )  # fmt: skip
    assert head.wire == (
        b"HTTP/1.1 200 OK\r\nServer: x\r\nSet-Cookie: a\xff=b\r\nSet-Cookie: c=d\r\nVia: 1.1 far, 1.1 n1\r\n"
        b"Content-Length: 5\r\n"
    )
    assert (head.status, head.length, head.is_chunked, head.closes, head.has_date) == (200, 5, False, False, False)
    assert head.wire_without_qos == head.wire


def test_the_fields_of_another_qos_server_can_be_left_out() -> None:
    head = read(b"QoS-Class: theirs", b"Date: now", b"qos-decision: served", b"Link: </a>")
    assert head.wire_without_qos == b"HTTP/1.1 200 OK\r\nDate: now\r\nLink: </a>\r\nVia: 1.1 n1\r\n"
    assert b"QoS-Class: theirs" in head.wire
    assert (head.has_date, head.links) == (True, ("</a>",))


@pytest.mark.parametrize(
    ("status", "field", "closes"),
    [
        (b"HTTP/1.1 200 OK", b"A: b", False),
        (b"HTTP/1.1 200 OK", b"Connection: Close", True),
        (b"HTTP/1.0 200 OK", b"A: b", True),
        (b"HTTP/1.0 200 OK", b"Connection: keep-alive", False),
        (b"HTTP/1.0 200 OK", b"Connection: keep-alive, close", True),
    ],
)
def test_whether_the_server_closes(status: bytes, field: bytes, closes: bool) -> None:
    assert read(field, status=status).closes is closes


@pytest.mark.parametrize("reason", [b" OK", b" ", b"", b" Sehr sch\xf6n"])
def test_any_reason_is_accepted(reason: bytes) -> None:
    assert read(status=b"HTTP/1.1 200" + reason).status == 200


@pytest.mark.parametrize(
    "lines",
    [
        [b"Content-Length: 5", b"Content-Length: 5"],
        [b"Content-Length: 5, 5"],
        [b"Content-Length: +5"],
        [b"Content-Length: "],
        [b"Content-Length: 0x5"],
        [b"Content-Length: 1234567890123456789"],
        [b"Content-Length: 5", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
        [b"Transfer-Encoding: gzip, chunked"],
        [b"Transfer-Encoding: identity"],
        [b"Transfer-Encoding:\x0bchunked"],
        [b"Content-Length : 5"],
        [b" Content-Length: 5"],
        [b"A: b", b" folded"],
        [b"A: b\nContent-Length: 5"],
        [b"A: b\rContent-Length: 5"],
        [b"A: \0"],
        [b": empty"],
        [b"no colon"],
        [b""],
        [b"X: y"] * 300,
    ],
)
def test_heads_that_are_not_forwarded(lines: list[bytes]) -> None:
    with pytest.raises(BadUpstreamHead):
        read(*lines)


@pytest.mark.parametrize(
    "status",
    [b"220 mail.example", b"HTTP/2 200", b"HTTP/1.2 200 OK", b"HTTP/1.1 20 OK", b"HTTP/1.1  200 OK", b"HTTP/1.1 099 X",
     b"HTTP/1.1 200 O\0K", b"", b"\nHTTP/1.1 200 OK"],
)  # fmt: skip
def test_status_lines_that_are_not_http(status: bytes) -> None:
    with pytest.raises(BadUpstreamHead):
        read(status=status)


@pytest.mark.parametrize("status", [b"HTTP/1.1 204 No Content", b"HTTP/1.1 103 Early Hints", b"HTTP/1.0 200 OK"])
def test_responses_that_cannot_be_chunked(status: bytes) -> None:
    with pytest.raises(BadUpstreamHead):
        read(b"Transfer-Encoding: chunked", status=status)


def test_the_cache_of_lines_is_bounded() -> None:
    heads = UpstreamHeads(b"n1")
    for number in range(3 * LINES_MAX):
        for length in (0, 1):
            heads.read(b"HTTP/1.1 200 OK\r\nX: %d\r\nContent-Length: %d\r\n\r\n" % (number, length))
    heads.read(b"HTTP/1.1 200 OK\r\nX: %b\r\n\r\n" % (b"x" * 5000))
    assert len(heads.lines) <= LINES_MAX
