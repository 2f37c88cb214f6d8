"""Parsed heads of plain requests for upstream servers, cached by their bytes for the fast path.

A forwarded request is plain if the head alone decides its class and its route, and if nothing about it is special: no
ticket, expectation, upgrade or transfer coding. Most heads differ from each other, but ask for few pages: what follows
from method, target and host is kept by page. Heads that come again are kept as a whole. Both caches are bounded, their
values are immutable, and both are dropped when the policy or the site's release changes. Admission, the look-up of a
file, the client and the choice of the server are never cached: they happen for every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.local.tickets import PARAMETER
from qosweb.http.hops import outgoing_fields
from qosweb.http.hosts import parse_host
from qosweb.http.known_heads import KnownHeads
from qosweb.http.request_heads import CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, UPGRADE
from qosweb.http.targets import BadTarget, parse_target
from qosweb.server.accesslog.line import quoted
from qosweb.server.connection.fast_path import PlainFacts
from qosweb.server.proxy.request_body import SMALL_MAX
from qosweb.server.releases.released_site import fields_of

if TYPE_CHECKING:
    from qosweb.admission import ClassAccount
    from qosweb.http.hops import OutgoingFields
    from qosweb.http.request_heads import RequestHead
    from qosweb.http.targets import RequestTarget
    from qosweb.server.accesslog.recorder import AccessRecorder
    from qosweb.server.proxy.routes import Route
    from qosweb.server.request.stages import RequestServices

PAGES_MAX = 4096
TARGET_LEN_MAX = 512

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_NOT_PLAIN = EXPECT | UPGRADE | TRANSFER_ENCODING


class ForwardPage:
    """Facts that follow from method, target and host of a request. Immutable."""

    __slots__ = (
        "account",
        "host",
        "is_head",
        "key",
        "log_part",
        "log_parts",
        "may_be_file",
        "request_line",
        "route",
        "target",
    )

    def __init__(
        self, method: str, host: str, target: RequestTarget, route: Route, account: ClassAccount | None
    ) -> None:
        """``account`` None: the class depends on other fields, too."""
        self.host = host
        self.target = target
        self.key = target.escaped_path
        self.route = route
        self.account = account
        self.is_head = method == "HEAD"
        self.may_be_file = method in ("GET", "HEAD")
        self.request_line = f"{method} {target.origin_form} HTTP/1.1\r\n".encode()
        self.log_parts = f'"method":"{method}","host":{quoted(host)}', f',"path":{quoted(self.key)},"class":'
        self.log_part = "" if account is None else self.log_part_of(account, "")

    def log_part_of(self, account: ClassAccount, extra_part: str) -> str:
        """The part of a line of the access log that follows from the head."""
        before, after = self.log_parts
        return f"{before}{extra_part}{after}{account.quoted}"


class ForwardHead:
    """A parsed plain request for an upstream server. Immutable."""

    __slots__ = ("account", "framing", "head", "length", "log_part", "outgoing", "page", "store_key")

    def __init__(self, head: RequestHead, page: ForwardPage, account: ClassAccount, outgoing: OutgoingFields) -> None:
        self.head = head
        self.length = head.length  # of the body
        self.page = page
        self.account = account
        self.outgoing = outgoing
        # The field line with the length of the body, if it has one.
        self.framing = b"Content-Length: %d\r\n" % head.length if head.bits & CONTENT_LENGTH else b""
        self.store_key = page.key  # of the file in the page store that would take precedence
        self.log_part = page.log_part or page.log_part_of(account, "")  # of its line in the access log


class ForwardHeads(KnownHeads[ForwardHead]):
    """Reads plain heads. ``known`` has those that came at least twice."""

    __slots__ = ("_is_possible", "_length_max", "_me", "_pages", "_recorder", "_services")

    def __init__(self, services: RequestServices, recorder: AccessRecorder, me: bytes) -> None:
        """``me`` is the name of this node."""
        super().__init__()
        self._services = services
        self._recorder = recorder
        self._me = me
        self._length_max = min(SMALL_MAX, services.body_limits.size_max)
        self._pages: dict[tuple[str, str, bytes], ForwardPage | None] = {}
        self._is_possible = False
        self.forget()

    def forget(self) -> None:
        super().forget()
        self._pages.clear()
        services = self._services
        self._is_possible = (
            services.routes is not None and self._recorder.has_fast_path and not services.admission.needs_file
        )

    def read(self, head: RequestHead) -> ForwardHead | None:
        """The meaning of ``head``; None if its request is not plain."""
        if head.bits & _NOT_PLAIN or not head.is_http_1_1 or head.must_close or not self._is_possible:
            return None
        if head.length > self._length_max:
            return None
        key = head.method, head.target, head.host
        page = self._pages.get(key)
        if page is None:
            page = None if key in self._pages else self._read_page(*key)
            if page is None:
                return None
        account = page.account or self._services.admission.classify_head(PlainFacts(head))
        if account is None:
            return None
        outgoing = outgoing_fields(head, me=self._me)
        if outgoing.is_loop:
            return None
        found = ForwardHead(head, page, account, outgoing)
        releases = self._services.releases
        if releases is not None and page.may_be_file:
            release = releases.site.plain_view(fields_of(head), page.key)
            if release is None:
                return None
            found.store_key = release.key_prefix + page.key
        if self._recorder.extra_fields:
            found.log_part = page.log_part_of(account, self._recorder.extra_part(head))
        return found

    def _read_page(self, method: str, target: str, host: bytes) -> ForwardPage | None:
        page = self._find_page(method, target, host)
        if len(target) <= TARGET_LEN_MAX:
            if len(self._pages) >= PAGES_MAX:
                self._pages.clear()
            self._pages[method, target, host] = page
        return page

    def _find_page(self, method: str, target: str, host: bytes) -> ForwardPage | None:
        name = parse_host(host.decode("latin-1"))
        if name is None or method not in _METHODS or PARAMETER in target or target[0] != "/":
            return None
        try:
            parsed = parse_target(target, must_be_file=False)
        except BadTarget:
            return None
        services = self._services
        route = None if services.routes is None else services.routes.find(name, parsed.path)
        if route is None:
            return None
        return ForwardPage(method, name, parsed, route, services.admission.classify_page(name, parsed.path))
