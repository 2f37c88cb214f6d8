"""Responses are parsed alike however their bytes are split, and ambiguous ones are rejected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.send.response_reader import BadResponse, HeadCache, ResponseReader, parse_head

WHOLE = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 5),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0),
    (b"HTTP/1.1 200\r\nContent-Length: 3, 3\r\n\r\nabc", 3),
    (b"HTTP/1.1 503 Busy\r\nQoS-Class: A\r\nQoS-Decision: expired\r\nContent-Length: 2\r\n\r\nno", 2),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;n=v\r\n0123456789\r\n0\r\nT: 1\r\n\r\n", 13),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 1),
    (b"HTTP/1.1 204 None\r\n\r\n", 0),
]


def _reader(body_max: int = 1000) -> ResponseReader:
    return ResponseReader(HeadCache(), body_max)


@given(st.sampled_from(WHOLE), st.lists(st.integers(1, 60), max_size=12))
def test_however_the_bytes_are_cut(answer: tuple[bytes, int], cuts: list[int]) -> None:
    data, size = answer
    reader = _reader()
    at = 0
    for cut in [*cuts, len(data)]:
        piece = data[at : at + cut]
        at += len(piece)
        if piece:
            complete = reader.feed(piece)
            assert complete == (at == len(data))
    assert reader.body == size
    assert not reader.surplus


@given(st.binary(max_size=300), st.lists(st.integers(1, 60), max_size=8))
def test_any_bytes_are_read_or_refused(data: bytes, cuts: list[int]) -> None:
    for start in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        reader = _reader()
        at = 0
        try:
            reader.feed(start + b"") if start else None
            for cut in [*cuts, len(data)]:
                if data[at : at + cut] and reader.feed(data[at : at + cut]):
                    break
                at += cut
        except BadResponse:
            pass


def test_one_after_the_other() -> None:
    reader = _reader()
    for data, size in WHOLE * 3:
        reader.begin(no_body=False)
        assert reader.feed(data)
        assert reader.body == size


def test_more_than_the_answer_is_noticed() -> None:
    for data, _ in WHOLE:
        reader = _reader()
        assert reader.feed(data + b"HTTP")
        assert reader.surplus


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/2 200 OK\r\n\r\n", "not an HTTP response"),
        (b"HTTP/1.1 999 Odd\r\n\r\n", "not an HTTP response"),
        (b"HTTP/1.1 20 OK\r\n\r\n", "not an HTTP response"),
        (b"ICY 200 OK\r\n\r\n", "not an HTTP response"),
        (b"HTTP/1.1 200 OK\r\nNo colon\r\n\r\n", "not a header field"),
        (b"HTTP/1.1 200 OK\r\nName : x\r\n\r\n", "not a header field"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", "not a header field"),
        (b"HTTP/1.1 200 OK\r\nA: b\nB: c\r\n\r\n", "not a header field"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "is not a size"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", "is not a size"),
        (b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", "is not a size"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n", "is not a size"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "is not a size"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "is not supported"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "the size of a chunk is not"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\nx", "CR LF"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n", "longer than its size says"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 5000,
            "the size of a chunk, with its extensions, is longer",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 5000, "trailers"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7D0\r\n" + b"x" * 2000, "more than --body-max"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000, "more than --body-max"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000, "a head of more than"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000 + b"\r\n\r\n", "a head of more than"),
    ],
)
def test_what_is_not_clear_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(BadResponse, match=why):
        _reader().feed(data)


def test_remembered_heads_are_bounded() -> None:
    remembered = HeadCache()
    for number in range(5000):
        head = remembered.read(b"HTTP/1.1 200 OK\r\nContent-Length: %d" % number)
        assert head.length == number
    assert len(remembered._heads) <= 512


def test_what_matters_of_a_head() -> None:
    head = parse_head(b"HTTP/1.0 307 Go\r\nconnection: Keep-Alive\r\nLocation: /x\r\nQOS-CLASS: \xc3\xa4\x01")
    assert (head.status, head.keeps_alive, head.location, head.qos_class) == (307, True, "/x", "ä?")
    assert not parse_head(b"HTTP/1.1 200 OK\r\nConnection: foo, close").keeps_alive
    assert not parse_head(b"HTTP/1.0 200 OK").keeps_alive
