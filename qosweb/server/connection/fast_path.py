"""Fast path: recognises plain GETs, which skip the pipeline. `KnownHeads` keeps them by the bytes of their heads.

A plain request is a GET that needs no stage once its page is in memory: no condition, range, body or ticket. Most
requests of a busy site are plain, and clients repeat the same heads. So the meaning of a head is cached by its bytes,
and a repeated head is not parsed again. Only complete heads that aiohttp's parser accepted get into the cache, so a hit
means exactly what parsing would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aiohttp import hdrs
from aiohttp.http import HttpVersion11

from qosweb.engine.local.tickets import PARAMETER
from qosweb.http.hosts import parse_host
from qosweb.http.known_heads import HEADS_MAX, KnownHeads
from qosweb.http.targets import BadTarget, parse_target

if TYPE_CHECKING:
    from aiohttp.http import RawRequestMessage

    from qosweb.admission import AdmissionControl, ClassAccount
    from qosweb.server.accesslog.recorder import AccessRecorder
    from qosweb.server.request.release_stages import SiteReleases


class PlainHead(NamedTuple):
    """A parsed plain request."""

    key: str  # of its page in the store: the path without the query, which does not matter for files
    host_part: str  # the host as in a line of the access log, and the extra fields of such a line
    accept_encoding: str | None
    account: ClassAccount  # of its class


class MessageFacts:
    """`HeadFacts` of a parsed request head. Each fact is parsed on demand."""

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


def read_plain(
    message: RawRequestMessage,
    recorder: AccessRecorder,
    admission: AdmissionControl,
    releases: SiteReleases | None = None,
) -> PlainHead | None:
    """The plain request in ``message``, which has no body; None if it is not plain."""
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
    host_part = recorder.hosts.get(headers[hdrs.HOST])
    if host_part is None:
        return None
    encodings = headers.getall(hdrs.ACCEPT_ENCODING, None)
    key, query_mark, _ = message.path.partition("?")
    if query_mark and ("#" in message.path or not message.path.isascii() or PARAMETER in message.path):
        return None  # parse_target rejects these targets; tickets have to be checked
    if releases is not None:
        release = releases.site.plain_view(headers, key)
        if release is None:
            return None
        key = release.key_prefix + key
    account = admission.classify_head(MessageFacts(message))
    if account is None:
        return None
    if recorder.extra_fields:
        host_part += recorder.extra_part(message)
    return PlainHead(key, host_part, None if encodings is None else ", ".join(encodings), account)


class PlainHeads(KnownHeads[PlainHead]):
    """Plain heads that came at least twice. The connection reads ``known`` directly."""

    __slots__ = ("clients",)

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[bytes, str] = {}  # of known heads that trusted proxies sent

    def remember_client(self, head: bytes, client: str) -> None:
        """Remember the client that a trusted proxy names in ``head``, if the head is known."""
        if head in self.known:
            if len(self.clients) >= HEADS_MAX:
                self.clients.clear()
            self.clients[head] = client
