"""Plain requests: the GETs that need none of the stages once their page is in memory.

Most requests of a busy site are plain, and clients repeat themselves: the same page is asked for in the same words
again and again. What such a head means is remembered by its bytes, so that it is parsed once and not every time.
Only heads that aiohttp's parser accepted get in, and only whole ones, so nothing is taken for plain that was not
found to be so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aiohttp import hdrs
from aiohttp.http import HttpVersion11

from qosweb.engine.local.tickets import PARAMETER
from qosweb.http.hosts import parse_host
from qosweb.http.targets import BadTarget, parse_target

if TYPE_CHECKING:
    from aiohttp.http import RawRequestMessage

    from qosweb.admission import AdmissionControl, ClassAccount

HEADS_MAX = 4096
HEAD_LEN_MAX = 1024
SEEN_ONCE_MAX = 16_384


class PlainHead(NamedTuple):
    """What is to be known of a plain request."""

    path: str  # without the query, which says nothing about a file
    host_part: str  # as it stands in a line of the access log
    accept_encoding: str | None
    account: ClassAccount  # of its class


class MessageFacts:
    """A request head as admission control sees it. Parses only what is asked for."""

    __slots__ = ("_message",)

    def __init__(self, message: RawRequestMessage) -> None:
        self._message = message

    @property
    def method(self) -> str:
        return self._message.method

    @property
    def host(self) -> str:
        return parse_host(self._message.headers.get(hdrs.HOST, "")) or ""

    @property
    def path(self) -> str | None:
        try:
            return parse_target(self._message.path).path
        except BadTarget:
            return None

    def field_lines(self, name: str) -> list[str]:
        return self._message.headers.getall(name, [])


def read_plain(message: RawRequestMessage, hosts: dict[str, str], admission: AdmissionControl) -> PlainHead | None:
    """``message``, which has no body, as a plain request; None if it is not one. ``hosts`` are those known as valid."""
    headers = message.headers
    if (
        message.method != "GET"
        or message.version is not HttpVersion11
        or message.should_close
        or message.upgrade
        or hdrs.IF_NONE_MATCH in headers
        or hdrs.IF_MODIFIED_SINCE in headers
        or hdrs.RANGE in headers
        or hdrs.IF_MATCH in headers
        or hdrs.IF_UNMODIFIED_SINCE in headers
        or hdrs.EXPECT in headers
        or hdrs.TRANSFER_ENCODING in headers
    ):
        return None
    host_part = hosts.get(headers[hdrs.HOST])
    if host_part is None:
        return None
    encodings = headers.getall(hdrs.ACCEPT_ENCODING, None)
    path, query_mark, _ = message.path.partition("?")
    if query_mark and ("#" in message.path or not message.path.isascii() or PARAMETER in message.path):
        return None  # parse_target refuses these; a ticket has to be looked at
    account = admission.classify_head(MessageFacts(message))
    if account is None:
        return None
    return PlainHead(path, host_part, None if encodings is None else ", ".join(encodings), account)


class PlainHeads:
    """Heads by their bytes, those that came at least twice. ``known`` is read directly by the path of every request."""

    __slots__ = ("_seen_once", "known")

    def __init__(self) -> None:
        self.known: dict[bytes, PlainHead] = {}
        self._seen_once: set[int] = set()  # hashes: a head that never comes again costs no more than this

    def remember(self, head: bytes, meaning: PlainHead) -> None:
        if len(head) > HEAD_LEN_MAX:
            return
        if (mark := hash(head)) not in self._seen_once:
            if len(self._seen_once) >= SEEN_ONCE_MAX:
                self._seen_once.clear()
            self._seen_once.add(mark)
            return
        if len(self.known) >= HEADS_MAX:
            self.known.clear()
        self.known[head] = meaning

    def forget(self) -> None:
        """What heads mean has changed."""
        self.known.clear()
        self._seen_once.clear()
