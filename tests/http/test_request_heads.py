"""Request heads: strict reading, cached lines, and nothing accepted that aiohttp's parser refuses."""

from __future__ import annotations

import asyncio
import random
import re
from typing import TYPE_CHECKING, NamedTuple

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpProcessingError, HttpRequestParser

from qosweb.http.field_lines import LINE_LEN_MAX, LINES_MAX, NEW_LINES_MAX
from qosweb.http.request_heads import METHODS, BadRequestHead, RequestHead, RequestHeads
from qosweb.http.targets import BadTarget, parse_target
from tests.server.connection.probes import FIELDS, HOSTS, REQUEST_LINES
from tests.server.connection.probes_accepted import ACCEPTED
from tests.server.connection.probes_framing import BODIES, CHUNKS, FRAMING, PIPELINES

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELDS_MAX = 100
MUTATED = 30_000
SEED = 9112

BASES = (
    b"GET /a?b=c HTTP/1.1\r\nHost: h\r\nX-A: b\r\nUser-Agent: x\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: h:80\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\r\n",
    b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close, X\r\nX: y\r\n\r\n",
    b"HEAD http://h/a HTTP/1.0\r\nhost: h\r\nConnection: keep-alive\r\nCookie: a=b; c=d\r\n\r\n",
    b"GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, keep-alive\r\nUpgrade: websocket\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: gzip, chunked\r\nVia: 1.1 x\r\n\r\n",
    b"GET /%e4 HTTP/1.2\r\nHost:\t h \t\r\nAccept:\r\nX_Y: \xe4\xff\r\nAccept: */*\r\n\r\n",
)
SPICES = (
    b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b",", b";", b"0", b"1", b"-", b"+", b"\x0b", b"\x85", b"\x7f",
    b"_", b"#", b"chunked", b"identity", b"close", b"keep-alive", b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2.0", b"\r\n ",
    b"Content-Length: 1\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: h\r\n",
    b"User-Agent: y\r\n", b"Upgrade: h2c\r\n", b"Connection: upgrade\r\n",
    b"Content-Length\r\n", b"GET /b HTTP/1.1\r\n",
)  # fmt: skip


class Meaning(NamedTuple):
    """What both parsers find in a head."""

    method: str
    target: str
    is_http_1_1: bool
    fields: tuple[tuple[bytes, bytes], ...]
    is_chunked: bool
    has_body: bool
    must_close: bool
    upgrades: bool


def read(head: bytes) -> RequestHead:
    return RequestHeads(FIELDS_MAX).read(head)


def request(*lines: bytes, line: bytes = b"GET /a HTTP/1.1") -> bytes:
    return b"\r\n".join([line, b"Host: h", *lines, b"", b""])


def meaning_here(heads: RequestHeads, head: bytes) -> Meaning | None:
    try:
        found = heads.read(head)
    except BadRequestHead:
        return None
    if found.target[0] not in "/*" and found.method != "CONNECT":
        try:
            parse_target(found.target)
        except BadTarget as bad:
            if bad.status == 400:
                return None  # the stages refuse it
    fields = tuple((field.raw_name, field.value) for field in found.fields)
    rest = found.is_chunked, found.has_body, found.must_close, found.upgrades
    return Meaning(found.method, found.target, found.is_http_1_1, fields, *rest)


def meaning_there(loop: asyncio.AbstractEventLoop, head: bytes) -> Meaning | None:
    """The meaning by aiohttp's parser, where a later minor version counts as HTTP/1.1."""
    if not re.match(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ [^ \t\r\n]+ HTTP/1\.[0-9]\r\n", head):
        return None
    head = re.sub(rb"\A([^ ]+ [^ ]+ HTTP/1\.)[2-9]\r\n", rb"\g<1>1\r\n", head)
    parser = HttpRequestParser(BaseProtocol(loop), loop, 1 << 16, max_line_size=1 << 16, max_field_size=1 << 16)
    try:
        messages = parser.feed_data(head)[0]
    except HttpProcessingError:
        return None
    if len(messages) != 1:
        return None
    message, payload = messages[0]
    has_body = bool(message.chunked) or (message.method != "CONNECT" and type(payload).__name__ == "StreamReader")
    return Meaning(
        message.method,
        message.path,
        message.version == (1, 1),
        tuple(message.raw_headers),
        bool(message.chunked),
        has_body,
        message.should_close,
        bool(message.upgrade),
    )


def mutated(dice: random.Random) -> bytes:
    data = bytearray(dice.choice(BASES))
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        at = dice.randrange(len(data) - 4)
        match dice.randrange(5):
            case 0:
                data[at : at + dice.randrange(1, 4)] = b""
            case 1:
                data[at] = dice.randrange(256)
            case 2:
                data[at:at] = data[at : at + dice.randrange(1, 30)]
            case _:
                data[at:at] = dice.choice(SPICES)
    return bytes(data).partition(b"\r\n\r\n")[0].removesuffix(b"\r\n") + b"\r\n\r\n"


def probes() -> Iterator[bytes]:
    for one in (*REQUEST_LINES, *HOSTS, *FIELDS, *FRAMING, *CHUNKS, *BODIES, *PIPELINES, *ACCEPTED):
        data = one.data
        while data.startswith(b"\r\n"):
            data = data[2:]
        yield data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    running = asyncio.new_event_loop()
    yield running
    running.close()


def is_stricter_on_purpose(head: bytes, there: Meaning) -> bool:
    """Heads that aiohttp's parser accepts and this one refuses."""
    values = {name.lower(): value for name, value in there.fields}
    coding = values.get(b"transfer-encoding", b"chunked").lower()
    elements = [element.strip(b" \t") for element in coding.split(b",")]
    is_unusual = len(elements) > 1 and (b"" in elements or b"identity" in elements or b"chunked" in elements[:-1])
    is_no_list = any(not re.fullmatch(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+", element) for element in elements)
    is_empty = coding == b""  # the stages refused it
    has_control = re.search(r"[\x00-\x20\x7f]", there.target) is not None
    is_other_form = there.target[0] not in "/*"  # not an acceptable http or https URL
    has_tab = re.search(rb"(?i)\n(content-length|transfer-encoding):[^\r]*\t", head) is not None
    is_stricter = is_unusual or is_no_list or is_empty or has_control or is_other_form or has_tab
    return is_stricter or len(values.get(b"content-length", b"")) > 20


def compare(loop: asyncio.AbstractEventLoop, heads: RequestHeads, head: bytes) -> bool:
    """Whether this parser accepts ``head``, with the meaning that aiohttp's parser finds."""
    here, there = meaning_here(heads, head), meaning_there(loop, head)
    if here is None:
        assert there is None or is_stricter_on_purpose(head, there), head
        return False
    assert there is not None, head
    if there.must_close is not here.must_close:  # "close, keep-alive": close counts
        assert here.must_close, head
        there = there._replace(must_close=True)
    if here.method == "CONNECT":
        there = there._replace(upgrades=here.upgrades, has_body=here.has_body)
    assert here == there, head
    return True


def test_mutated_heads_mean_what_another_parser_finds_or_are_refused(loop: asyncio.AbstractEventLoop) -> None:
    dice, heads = random.Random(SEED), RequestHeads(FIELDS_MAX)
    accepted = sum(compare(loop, heads, mutated(dice)) for _ in range(MUTATED))
    assert MUTATED // 10 < accepted < MUTATED * 9 // 10


def test_probes_mean_what_another_parser_finds_or_are_refused(loop: asyncio.AbstractEventLoop) -> None:
    heads = RequestHeads(FIELDS_MAX)
    results = {compare(loop, heads, head) for _ in range(2) for head in probes()}
    assert results == {True, False}


def test_all_methods_of_the_other_parser_are_known(loop: asyncio.AbstractEventLoop) -> None:
    for method in METHODS:
        assert compare(loop, RequestHeads(FIELDS_MAX), request(line=f"{method} /a HTTP/1.1".encode())), method


def test_fields_are_found_whatever_their_case() -> None:
    head = read(request(b"X-a:  b \t", b"x-A: \xe4", b"X-B:"))
    assert head.values("X-A") == ["b", "\udce4"]
    assert (head.value("x-a"), head.value("X-B"), head.value("X-C")) == ("b, \udce4", "", None)
    assert head.with_target("/b").target == "/b"


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (501, b"BREW /pot HTTP/1.1"),
        (505, b"GET /a HTTP/3.0"),
        (505, b"GET /a"),
        (400, b"GET  /a HTTP/1.1"),
        (400, b"\x16\x03\x01"),
    ],
)
def test_why_a_request_line_is_refused(status: int, line: bytes) -> None:
    with pytest.raises(BadRequestHead) as refused:
        read(request(line=line))
    assert refused.value.status == status


def test_too_many_fields_are_refused() -> None:
    assert len(read(request(*(b"X: y",) * (FIELDS_MAX - 1))).fields) == FIELDS_MAX
    with pytest.raises(BadRequestHead) as refused:
        read(request(*(b"X: y",) * FIELDS_MAX))
    assert refused.value.status == 431


def test_the_cache_of_lines_is_bounded_and_keeps_no_line_that_was_refused() -> None:
    heads = RequestHeads(FIELDS_MAX)
    for number in range(2 * LINES_MAX):
        for _ in range(2):
            heads.read(request(b"X-Number: %d" % number))
        assert len(heads.lines) <= LINES_MAX
    long = b"X: " + b"y" * LINE_LEN_MAX
    heads.read(request(long))
    assert long not in heads.lines
    for _ in range(3):
        with pytest.raises(BadRequestHead):
            heads.read(request(b"X : y"))
    assert b"X : y" not in heads.lines


def test_lines_that_never_come_again_displace_no_other_line() -> None:
    heads = RequestHeads(FIELDS_MAX)
    for _ in range(2):
        heads.read(request(b"X: y"))
    for number in range(2 * LINES_MAX):
        heads.read(request(b"X-Number: %d" % number))
        assert len(heads.lines._new) <= NEW_LINES_MAX
    assert b"X: y" in heads.lines
    assert len(heads.lines) < 10


@pytest.mark.parametrize("head", [head for head in probes() if len(head) < 2_000], ids=lambda head: repr(head[:60]))
def test_a_head_in_pieces_is_refused_only_if_it_is_refused_as_a_whole(head: bytes) -> None:
    heads, start = RequestHeads(FIELDS_MAX), 0
    try:
        for end in range(1, len(head)):
            start = heads.check_begun(head[:end], start)
    except BadRequestHead:
        with pytest.raises(BadRequestHead):
            heads.read(head)
