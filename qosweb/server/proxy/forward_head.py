"""Meaning of request heads that go to upstream servers, for the fast path of forwarded requests.

A forwarded request is plain if the head alone decides its class and its route, and if nothing about it is special: no
ticket, expectation, upgrade or transfer coding. Most heads differ from each other, but ask for few pages: what follows
from host and target is kept by page. Heads that come again are kept as a whole. Both caches are bounded, their values
are immutable, and both are dropped when the policy changes. Admission, the look-up of a file, the client and the choice
of the server are never cached: they happen for every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qosweb.engine.local.tickets import PARAMETER
from qosweb.http.hops import outgoing_fields
from qosweb.http.hosts import parse_host
from qosweb.http.known_heads import KnownHeads
from qosweb.http.request_heads import CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING, UPGRADE
from qosweb.http.targets import BadTarget, parse_target
from qosweb.server.connection.fast_path import PlainFacts
from qosweb.server.proxy.request_body import SMALL_MAX

if TYPE_CHECKING:
    from qosweb.admission import ClassAccount
    from qosweb.http.hops import OutgoingFields
    from qosweb.http.request_heads import RequestHead
    from qosweb.http.targets import RequestTarget
    from qosweb.server.accesslog.recorder import AccessRecorder
    from qosweb.server.proxy.routes import Route
    from qosweb.server.request.stages import Site

PAGES_MAX = 4096
TARGET_LEN_MAX = 512

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_NOT_PLAIN = EXPECT | UPGRADE | TRANSFER_ENCODING


class ForwardPage(NamedTuple):
    """What follows from host and target of a request."""

    host: str
    target: RequestTarget
    key: str  # the escaped path
    route: Route
    account: ClassAccount | None  # None: the class depends on other fields, too
    host_part: str  # of a line of the access log
    path_part: str


class ForwardHead(NamedTuple):
    """A parsed plain request for an upstream server."""

    head: RequestHead
    page: ForwardPage
    account: ClassAccount
    outgoing: OutgoingFields
    request_line: bytes
    framing: bytes  # the field line with the length of the body, if it has one
    is_head: bool
    may_be_file: bool
    log_part: str  # of a line of the access log: from the method to the class


class ForwardHeads(KnownHeads[ForwardHead]):
    """Reads plain heads. ``known`` has those that came at least twice."""

    __slots__ = ("_me", "_pages", "_recorder", "_site")

    def __init__(self, site: Site, recorder: AccessRecorder, me: bytes) -> None:
        """``me`` is the name of this node."""
        super().__init__()
        self._site = site
        self._recorder = recorder
        self._me = me
        self._pages: dict[tuple[bytes, str], ForwardPage | None] = {}

    def forget(self) -> None:
        super().forget()
        self._pages.clear()

    def read(self, head: RequestHead) -> ForwardHead | None:
        """The meaning of ``head``; None if its request is not plain."""
        method, site = head.method, self._site
        if head.bits & _NOT_PLAIN or method not in _METHODS or not head.is_http_1_1 or head.must_close:
            return None
        if (
            head.length > min(SMALL_MAX, site.body_limits.size_max)
            or site.routes is None
            or not self._recorder.has_fast_path
        ):
            return None
        page = self._page(next(head.raw(HOST)), head.target)
        if page is None:
            return None
        account = page.account or site.admission.classify_head(PlainFacts(head))
        if account is None or site.admission.needs_file:
            return None
        outgoing = outgoing_fields(head, me=self._me)
        if outgoing.is_loop:
            return None
        extra = self._recorder.extra_part(head) if self._recorder.extra_fields else ""
        return ForwardHead(
            head,
            page,
            account,
            outgoing,
            f"{method} {page.target.origin_form} HTTP/1.1\r\n".encode(),
            b"Content-Length: %d\r\n" % head.length if head.bits & CONTENT_LENGTH else b"",
            method == "HEAD",
            method in ("GET", "HEAD") and not head.length,
            f'"method":"{method}",{page.host_part}{extra},{page.path_part}{account.quoted}',
        )

    def _page(self, host: bytes, target: str) -> ForwardPage | None:
        key = host, target
        if key in self._pages:
            return self._pages[key]
        page = self._read_page(host, target)
        if len(target) <= TARGET_LEN_MAX:
            if len(self._pages) >= PAGES_MAX:
                self._pages.clear()
            self._pages[key] = page
        return page

    def _read_page(self, host: bytes, target: str) -> ForwardPage | None:
        name = parse_host(host.decode("latin-1"))
        if name is None or PARAMETER in target or target[0] != "/":
            return None
        try:
            parsed = parse_target(target, must_be_file=False)
        except BadTarget:
            return None
        site = self._site
        route = None if site.routes is None else site.routes.find(name, parsed.path)
        if route is None:
            return None
        account = site.admission.classify_page(name, parsed.path)
        key = parsed.escaped_path
        host_part, path_part = self._recorder.page_parts(name, key)
        return ForwardPage(name, parsed, key, route, account, host_part, path_part)
