"""Framing of request bodies: the result does not depend on how the data is split, and the parser is strict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.http.bodies import BadBody, Body, ChunkedBody, SizedBody


def read(body: Body, data: bytes, cuts: list[int]) -> tuple[bytes, bytes]:
    """Body and rest, fed in pieces."""
    got, rest, at = b"", b"", 0
    for end in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        piece = data[at:end]
        at = end
        if body.is_complete:
            rest += piece
            continue
        part, behind = body.feed(piece)
        got += part
        rest += behind
    return got, rest


def chunked(parts: list[bytes], extension: bytes = b"", trailers: bytes = b"") -> bytes:
    chunks = [b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts if part]
    return b"".join(chunks) + b"0\r\n" + trailers + b"\r\n"


@given(st.binary(max_size=50), st.binary(max_size=20), st.lists(st.integers(0, 100), max_size=8))
def test_a_body_by_length(body: bytes, rest: bytes, cuts: list[int]) -> None:
    reader = SizedBody(len(body))
    assert read(reader, body + rest, cuts) == (body, rest)
    assert reader.is_complete


@given(
    st.lists(st.binary(max_size=30), max_size=6),
    st.binary(max_size=20),
    st.lists(st.integers(0, 300), max_size=12),
    st.sampled_from([b"", b";a=b", b' ;x="y z"', b";a", b";a;b=c;d", b' ; a = "\\"]\\\\;" ;b']),
    st.sampled_from([b"", b"X-Sum: 1\r\n", b"A: \r\nB:c\r\n"]),
)
def test_a_chunked_body(parts: list[bytes], rest: bytes, cuts: list[int], extension: bytes, trailers: bytes) -> None:
    reader = ChunkedBody()
    assert read(reader, chunked(parts, extension, trailers) + rest, cuts) == (b"".join(parts), rest)
    assert reader.is_complete


@pytest.mark.parametrize(
    "data",
    [
        b"5\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhelloX\r\n0\r\n\r\n",
        b"5\r\nhello\rX0\r\n\r\n",
        b"5\r\nhello\r\n\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"-1\r\n",
        b" 5\r\nhello\r\n",
        b"5 \r\nhello\r\n",
        b"5_0\r\n",
        b"11111111111111111\r\n",
        b"\r\n",
        b";a\r\n",
        b"5;\x00\r\nhello\r\n",
        b"5;\r\nhello\r\n",
        b"5; \r\nhello\r\n",
        b"5;;a\r\nhello\r\n",
        b"5;a;\r\nhello\r\n",
        b"5;a \r\nhello\r\n",
        b"5;a=\r\nhello\r\n",
        b"5;=b\r\nhello\r\n",
        b"5;bad[=x\r\nhello\r\n",
        b"5;a=b c\r\nhello\r\n",
        b'5;a="b\r\nhello\r\n',
        b'5;a="b"c\r\nhello\r\n',
        b'5;a="b\\"\r\nhello\r\n',
        b"5;a=\xff\r\nhello\r\n",
        b"5;" + b"x" * 2000,
        b"5;" + b"x" * 2000 + b"\r\n",
        b"0\r\nno field\r\n\r\n",
        b"0\r\n: x\r\n\r\n",
        b"0\r\nGET / HTTP/1.1\r\n\r\n",
        b"0\r\n" + b"X: y\r\n" * 9000,
        b"0\r\nX: " + b"y" * 20_000,
        b"0\r\n\n",
    ],
)
def test_invalid_framing_is_rejected(data: bytes) -> None:
    for size in (1, 3, len(data)):
        reader = ChunkedBody()

        def feed(reader: ChunkedBody = reader, size: int = size) -> None:
            for at in range(0, len(data), size):
                reader.feed(data[at : at + size])

        with pytest.raises(BadBody):
            feed()


@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=5))
def test_the_result_does_not_depend_on_how_data_is_split(data: bytes, cuts: list[int]) -> None:
    def outcome(cuts: list[int]) -> tuple[bytes, bytes] | None:
        try:
            return read(ChunkedBody(), data, cuts)
        except BadBody:
            return None

    assert outcome(cuts) == outcome([])
