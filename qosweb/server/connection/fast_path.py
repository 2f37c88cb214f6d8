"""Fast path: recognises plain GETs, which skip the pipeline. `KnownHeads` keeps them by the bytes of their heads.

A plain request is a GET that needs no stage once its page is in memory: no condition, range, body or ticket. Most
requests of a busy site are plain, and clients repeat the same heads. So the meaning of a head is cached by its bytes,
and a repeated head is not parsed again. Only complete heads that the parser accepted get into the cache, so a hit
means exactly what parsing would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qosweb.engine.local.tickets import PARAMETER
from qosweb.http.hosts import parse_host
from qosweb.http.known_heads import HEADS_MAX, KnownHeads
from qosweb.http.request_heads import ACCEPT_ENCODING, CONDITION, EXPECT, TRANSFER_ENCODING, UPGRADE
from qosweb.http.targets import BadTarget, parse_target
from qosweb.server.releases.released_site import fields_of

if TYPE_CHECKING:
    from qosweb.admission import AdmissionControl, ClassAccount
    from qosweb.http.request_heads import RequestHead
    from qosweb.server.accesslog.recorder import AccessRecorder
    from qosweb.server.request.release_stages import SiteReleases

_NOT_PLAIN = CONDITION | EXPECT | TRANSFER_ENCODING | UPGRADE


class PlainHead(NamedTuple):
    """A parsed plain request."""

    key: str  # of its page in the store: the path without the query, which does not matter for files
    host_part: str  # the host as in a line of the access log, and the extra fields of such a line
    accept_encoding: str | None
    account: ClassAccount  # of its class
    data: bytes  # of the head


class PlainFacts:
    """`HeadFacts` of a parsed request head. Each fact is parsed on demand."""

    __slots__ = ("_head",)

    def __init__(self, head: RequestHead) -> None:
        self._head = head

    @property
    def method(self) -> str:
        return self._head.method

    @property
    def host(self) -> str:
        return parse_host(self._head.value("host") or "") or ""

    @property
    def path(self) -> str | None:
        try:
            return parse_target(self._head.target).path
        except BadTarget:
            return None

    def field_lines(self, name: str) -> list[str]:
        return self._head.values(name)


def read_plain(
    head: RequestHead,
    data: bytes,
    recorder: AccessRecorder,
    admission: AdmissionControl,
    releases: SiteReleases | None = None,
) -> PlainHead | None:
    """The plain request with this head, whose bytes are ``data``; None if it is not plain."""
    if head.bits & _NOT_PLAIN or head.method != "GET" or head.must_close or not head.is_http_1_1 or head.length:
        return None
    host_part = recorder.hosts.get(head.host)
    if host_part is None:
        return None
    target = head.target
    key, query_mark, _ = target.partition("?")
    if query_mark and ("#" in target or not target.isascii() or PARAMETER in target):
        return None  # parse_target rejects these targets; tickets have to be checked
    if releases is not None:
        release = releases.site.plain_view(fields_of(head), key)
        if release is None:
            return None
        key = release.key_prefix + key
    account = admission.classify_head(PlainFacts(head))
    if account is None:
        return None
    if recorder.extra_fields:
        host_part += recorder.extra_part(head)
    encodings = head.value("accept-encoding") if head.bits & ACCEPT_ENCODING else None
    return PlainHead(key, host_part, encodings, account, data)


class PlainHeads(KnownHeads[PlainHead]):
    """Plain heads that came at least twice. The connection reads ``known`` directly."""

    __slots__ = ("clients",)

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[tuple[str, bytes], str] = {}  # by the trusted proxy that sent a head, and the head

    def remember_client(self, proxy: str, head: bytes, client: str) -> None:
        """Remember the client that a trusted proxy names in ``head``. It depends on the policy in no way."""
        if len(self.clients) >= HEADS_MAX:
            self.clients.clear()
        self.clients[proxy, head] = client
