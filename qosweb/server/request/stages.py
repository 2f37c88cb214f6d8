"""Pipeline stages: one function for each step from a request to its response.

A stage reads the exchange, adds its findings to it, and returns None (continue), a response (the end), a ForwardTarget
(another server responds), or WAITING (run this stage again when resumed). Stages know no sockets. They never block,
except in ``stat`` of files that were read before.
Neighbours: ``qosweb.server.pipeline`` puts the stages in order.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qosweb.admission import Denial, Forward, Permit, Wait
from qosweb.engine.local.tickets import without_ticket
from qosweb.http.hosts import parse_host
from qosweb.http.preconditions import PreconditionResult, RequestConditions, evaluate, range_applies
from qosweb.http.ranges import (
    UNSATISFIABLE,
    ByteSpan,
    content_range,
    multipart_byteranges,
    parse_range,
    unsatisfied_range,
)
from qosweb.http.targets import BadTarget, parse_target
from qosweb.server.files.files import HeldElsewhere, NotServed
from qosweb.server.files.page_store import Loaded, PageStore, status_of
from qosweb.server.files.pages import Moved, Page, Resource, page_fields, validator_fields
from qosweb.server.proxy.attempts import ForwardTarget
from qosweb.server.proxy.request_body import RequestBody
from qosweb.server.request.answers import Answer, bodiless, explain, serialise_head
from qosweb.server.request.exchange import WAITING, Exchange, Waiting
from qosweb.server.request.ignored_body import IgnoredBody

if TYPE_CHECKING:
    from qosweb.admission import AdmissionControl, ClassAccount, Clock
    from qosweb.blocklist.block_list import BlockList
    from qosweb.server.connection.client_share import SharedPlaces
    from qosweb.server.proxy.request_body import BodyLimits
    from qosweb.server.proxy.routes import Route, Routes
    from qosweb.server.request.release_stages import SiteReleases

ALLOW = ("Allow", "GET, HEAD, OPTIONS")
RANGES_MAX = 16
BLOCKED = "blocked"  # the decision for the access log

explain_denial = functools.lru_cache(maxsize=256)(explain)  # under overload most requests get one of a few responses

Step = Answer | ForwardTarget | Waiting | None


@dataclass(frozen=True, slots=True)
class RequestServices:
    """The services of a node that handle requests: the stages use them, and so do the fast paths."""

    store: PageStore
    admission: AdmissionControl
    clock: Clock
    is_secure: bool  # reached by TLS
    blocks: BlockList  # clients and networks that are refused
    body_limits: BodyLimits
    small_bodies: SharedPlaces  # request bodies in memory
    routes: Routes | None  # to the servers for requests that are not for a file here
    releases: SiteReleases | None = None  # if the cluster stores the site

    def account_of(self, exchange: Exchange) -> ClassAccount:
        """The account of the request's class. Classifies the request if that has not happened yet."""
        if exchange.account is None:
            exchange.account = self.admission.classify(exchange, exchange.started)
        return exchange.account


def check_message(exchange: Exchange, services: RequestServices) -> Step:  # noqa: ARG001
    """Check host and expectation; take the ticket out of the target."""
    path, exchange.ticket = without_ticket(exchange.head.target)
    if exchange.ticket is not None:
        exchange.head = exchange.head.with_target(path)
    named_host = exchange.head.value("host")
    if named_host is not None:  # HTTP/1.0 needs none; the parser rejects HTTP/1.1 without it
        host = parse_host(named_host)
        if host is None:
            return explain(400, "The Host field must be a host with an optional port.", must_close=True)
        exchange.host = host
    expectation = exchange.field("Expect")
    if expectation is not None and expectation.lower() != "100-continue":
        return explain(417, "The only expectation that this server supports is 100-continue.")
    return None


def check_method(exchange: Exchange, services: RequestServices) -> Step:
    """Allow GET and HEAD, respond to OPTIONS, reject other methods.

    GET must not have a body. A small body of HEAD and OPTIONS is read and ignored.

    With an upstream server, nearly every method is allowed: that server gets all requests that are not for a file.
    """
    method = exchange.head.method
    if services.routes is not None and method not in ("CONNECT", "TRACE") and exchange.head.target != "*":
        return None
    if method not in ("GET", "HEAD", "OPTIONS"):
        return explain(405, f"{method} is not allowed here.", [ALLOW], must_close=method == "CONNECT")
    if exchange.has_body:
        if method == "GET":
            return explain(413, "A GET request must not have a body here.", must_close=True)
        waiting = _ignore_body(exchange)
        if waiting is not None:
            return waiting
    if method == "OPTIONS":
        refusal = resolve_target(exchange, services) if exchange.head.target != "*" else None
        return refusal or bodiless(204, [ALLOW])
    return None


def resolve_target(exchange: Exchange, services: RequestServices) -> Step:
    """Resolve the request target to a canonical path below the root; find the client of a forwarded request."""
    if not services.is_secure and exchange.head.target[:6].lower() == "https:":  # RFC 9110 section 7.4
        return explain(421, "An https target was requested on a connection without TLS.", must_close=True)
    try:
        exchange.target = parse_target(exchange.head.target, must_be_file=services.routes is None)
    except BadTarget as bad:
        if bad.status == 404:
            return explain(404, "There is no such page.")
        return explain(bad.status, f"The request target is not acceptable: {bad.reason}.", must_close=True)
    exchange.key = exchange.target.escaped_path
    if exchange.target.authority is not None:  # RFC 9112 section 3.2.2: it replaces Host
        exchange.host = exchange.target.authority
    if exchange.ticket is not None and (client := services.admission.redirects.forwarded_client(exchange)):
        exchange.proxy, exchange.client = exchange.proxy or exchange.client, client
        exchange.is_from_node = True
    return None


def read_body(exchange: Exchange, services: RequestServices) -> Step:
    """Wait for a small request body. A larger one is streamed after admission; one above the limit is refused."""
    if not exchange.has_body:
        return None
    body = exchange.request_body
    if body is None:
        if exchange.head.is_chunked and not exchange.head.is_http_1_1:  # RFC 9112 section 6.1
            return explain(400, "A chunked body needs HTTP/1.1.", must_close=True)
        if exchange.head.is_chunked and (exchange.field("Transfer-Encoding") or "").strip().lower() != "chunked":
            return explain(400, "The only transfer coding that is forwarded is chunked.", must_close=True)
        body = RequestBody(
            exchange.head, exchange.client, services.clock.read(), services.body_limits, services.small_bodies
        )
        exchange.request_body = body
    if body.refusal is not None:
        return body.refusal
    return WAITING if body.holds_up else None


def refuse_blocked(exchange: Exchange, services: RequestServices) -> Step:
    """Refuse the requests of blocked clients, before they cost the disk or a queue anything."""
    if not services.blocks:
        return None
    assert exchange.target is not None
    block = services.blocks.find(exchange.client, exchange.target.path)
    if block is None:
        return None
    exchange.outcome = BLOCKED
    fields = [("QoS-Decision", f"blocked; reference={block.id}"), ("Cache-Control", "no-store")]
    return explain(403, f"Requests from your network are blocked here. Reference: {block.id}.", fields)


def look_up_file(exchange: Exchange, services: RequestServices) -> Step:
    """Look up the file if the policy has conditions on it, or if an upstream server responds otherwise.

    In all other cases it is looked up only after admission.
    """
    return _look_up(exchange, services) if services.admission.needs_file or services.routes is not None else None


def classify(exchange: Exchange, services: RequestServices) -> Step:
    """Find the class, and the size of the response if it is known without disk access."""
    services.account_of(exchange)
    resource = exchange.resource
    if resource is None and _may_be_file(exchange, services):
        resource = services.store.resources.get(exchange.page_key)  # perhaps stale: it serves as an estimate
    if exchange.is_head:
        exchange.expected_size = 0
    elif resource is not None:
        exchange.expected_size = resource.plain.size
    if resource is not None or services.routes is not None:
        _record_access(exchange, services)
    return None


def admit(exchange: Exchange, services: RequestServices) -> Step:
    """Ask admission control: the request starts, waits, is denied, or goes to another node."""
    if exchange.permit is not None:
        return None
    decided = exchange.decided
    if decided is None:
        account, size = services.account_of(exchange), exchange.expected_size
        servers = _upstream_servers(exchange, services)
        if servers is not None:
            exchange.pool = services.admission.pool_name(servers)
        entered = services.admission.enter(exchange, account, exchange.on_decided, size=size, servers=servers)
        exchange.account, exchange.rid = entered.account, entered.rid
        if isinstance(entered, Wait):
            exchange.wait, exchange.forget = entered, entered.cancel
            return WAITING
        decided = exchange.decided = entered
    exchange.rid = decided.rid
    if isinstance(decided, Permit):
        exchange.permit = decided
        exchange.slot = decided if decided.queue is not None else None
        return None
    if isinstance(decided, Denial) and decided.status == 503 and _client_fills_its_share(exchange, services):
        decided.account.reasons[decided.reason] -= 1  # this response has another reason: one client takes too much
        return explain(429, "Too many requests from your address wait for the upstream server.", [("Retry-After", "1")])
    exchange.outcome = decided.decision
    if isinstance(decided, Forward):
        return ForwardTarget(decided.target, None, decided.origin, decided.node)
    if isinstance(decided, Denial):
        exchange.reason = decided.reason
        return explain_denial(decided.status, decided.text, decided.fields)
    return explain(decided.status, decided.text, decided.fields)


def _client_fills_its_share(exchange: Exchange, services: RequestServices) -> bool:
    """Whether the client has its whole share at each upstream server of the route, and so its request waits."""
    route = _upstream_route(exchange, services)
    return route is not None and all(one.places.is_used_up_by(exchange.client) for one in route.servers)


def _upstream_servers(exchange: Exchange, services: RequestServices) -> tuple[tuple[str, bool], ...] | None:
    route = _upstream_route(exchange, services)
    return None if route is None else route.pool


def _upstream_route(exchange: Exchange, services: RequestServices) -> Route | None:
    """The servers for a request that is not for a file."""
    if services.routes is None or exchange.resource is not None or exchange.target is None:
        return None
    if exchange.failure is not None and not isinstance(exchange.failure, NotServed):
        return None  # this node answers
    return services.routes.find(exchange.host, exchange.target.path)


def find_page(exchange: Exchange, services: RequestServices) -> Step:
    """Find the resource in memory or, after a wait, on disk; respond if there is none."""
    waiting = _look_up(exchange, services)
    if waiting is not None:
        return waiting
    resource, permit, failure = exchange.resource, exchange.permit, exchange.failure
    if resource is not None:
        if permit is not None and exchange.expected_size is None:
            permit.resize(0 if exchange.is_head else resource.plain.size)
        _record_access(exchange, services)
        return None
    if failure is None:
        return None  # not a request for a file
    exchange.was_delayed = True
    if isinstance(failure, Moved):
        target = exchange.target
        assert target is not None
        location = failure.location + (f"?{target.query}" if target.query else "")
        return explain(301, "This is a directory; its address must end with a slash.", [("Location", location)])
    if isinstance(failure, HeldElsewhere):
        return ForwardTarget(exchange.origin_form, None, failure.node_url, failure.node_url)
    status, reason = status_of(failure)
    if status == 404 and services.routes is not None:
        return None
    return explain(status, reason, [("Retry-After", "1")] if status == 503 else ())


def forward_upstream(exchange: Exchange, services: RequestServices) -> Step:
    """Forward a request that is not for a file to the upstream server, if there is one."""
    if exchange.resource is not None or services.routes is None:
        return None
    assert exchange.target is not None
    if exchange.head.method == "OPTIONS" and exchange.field("Max-Forwards") == "0":  # RFC 9110 section 7.6.2
        return bodiless(204, [])
    route = services.routes.find(exchange.host, exchange.target.path)
    if route is None:
        return explain(404, "No server is configured for this address.")
    return ForwardTarget(exchange.origin_form, route)


def choose_variant(exchange: Exchange, services: RequestServices) -> Step:  # noqa: ARG001
    assert exchange.resource is not None
    exchange.page = exchange.resource.page_for(exchange.field("Accept-Encoding"))
    return None


def check_preconditions(exchange: Exchange, services: RequestServices) -> Step:
    page, varies = _chosen(exchange)
    outcome = evaluate(_conditions(exchange), exchange.head.method, page.validators, services.clock.second)
    if outcome is PreconditionResult.NOT_MODIFIED:
        return bodiless(304, validator_fields(page, varies=varies))
    if outcome is PreconditionResult.FAILED:
        return explain(412, "The page is not the version that the request requires.")
    return None


def choose_ranges(exchange: Exchange, services: RequestServices) -> Step:
    """Respond with 206 or 416 to a GET with an applicable Range field."""
    range_field = exchange.field("Range")
    if range_field is None or exchange.head.method != "GET":
        return None
    page, varies = _chosen(exchange)
    if not range_applies(_conditions(exchange), page.validators, services.clock.second):
        return None
    spans = parse_range(range_field, page.size, RANGES_MAX)
    if spans is None:
        return None
    if spans is UNSATISFIABLE:
        return explain(416, f"The page has {page.size} bytes.", [("Content-Range", unsatisfied_range(page.size))])
    if len(spans) == 1:
        return _single_part(page, spans[0], varies=varies)
    return _several_parts(page, spans, varies=varies)


def send_page(exchange: Exchange, services: RequestServices) -> Step:  # noqa: ARG001
    """Respond with the complete page."""
    page, _ = _chosen(exchange)
    return Answer(200, page.head, page.segments())


def _ignore_body(exchange: Exchange) -> Answer | Waiting | None:
    """Wait until the connection has read the body; None when it has."""
    body = exchange.ignored_body
    if body is None:
        body = exchange.ignored_body = IgnoredBody(exchange.head)
        exchange.was_delayed = True
    if body.refusal is not None:
        return body.refusal
    if not body.is_over:
        return WAITING
    exchange.has_body = False
    return None


def _may_be_file(exchange: Exchange, services: RequestServices) -> bool:
    """Whether the request may be for a file. Every other request goes to an upstream server."""
    if services.routes is None:
        return True
    return services.store.root is not None and not exchange.has_body and exchange.head.method in ("GET", "HEAD")


def _look_up(exchange: Exchange, services: RequestServices) -> Waiting | None:
    """Set ``resource`` or ``failure``, after a wait for the disk if necessary."""
    if exchange.resource is not None or exchange.failure is not None or not _may_be_file(exchange, services):
        return None
    target = exchange.target
    assert target is not None
    key = exchange.page_key
    resource = services.store.current(key, exchange.started)
    if resource is not None:
        resource.recently_used = True
        exchange.resource = resource
        return None
    if services.routes is not None and services.store.is_absent(key, exchange.started):
        exchange.failure = NotServed()
        return None

    def loaded(result: Loaded) -> None:
        exchange.forget = None
        if isinstance(result, Resource):
            exchange.resource = result
            exchange.expected_size = None  # it was of an earlier version, if known at all
        else:
            exchange.failure = result
        exchange.resume(exchange)

    exchange.forget = lambda: services.store.forget(key, loaded)
    services.store.fetch(target, loaded, key, exchange.release)
    return WAITING


def _record_access(exchange: Exchange, services: RequestServices) -> None:
    """Record the access once, for conditions on earlier requests.

    Only accesses to existing pages count; with upstream servers all requests do.
    """
    if not exchange.is_recorded:
        exchange.is_recorded = True
        services.admission.record_access(exchange, exchange.started)


def _chosen(exchange: Exchange) -> tuple[Page, bool]:
    assert exchange.page is not None
    assert exchange.resource is not None
    return exchange.page, bool(exchange.resource.encoded)


def _conditions(exchange: Exchange) -> RequestConditions:
    return RequestConditions(
        if_match=exchange.field("If-Match"),
        if_none_match=exchange.field("If-None-Match"),
        if_modified_since=exchange.field("If-Modified-Since"),
        if_unmodified_since=exchange.field("If-Unmodified-Since"),
        if_range=exchange.field("If-Range"),
    )


def _single_part(page: Page, span: ByteSpan, *, varies: bool) -> Answer:
    fields = [
        ("Content-Range", content_range(span, page.size)),
        ("Content-Length", str(span.length)),
        *page_fields(page, varies=varies),
    ]
    return Answer(206, serialise_head(206, fields), (page.part(span.first, span.length),))


def _several_parts(page: Page, spans: list[ByteSpan], *, varies: bool) -> Answer:
    boundary = os.urandom(12).hex()
    heads, end = multipart_byteranges(spans, page.size, page.media_type, boundary)
    body = tuple(
        piece for head, span in zip(heads, spans, strict=True) for piece in (head, page.part(span.first, span.length))
    )
    body = (*body, end)
    length = sum(map(len, heads)) + sum(span.length for span in spans) + len(end)
    fields = [
        ("Content-Length", str(length)),
        ("Content-Type", f"multipart/byteranges; boundary={boundary}"),
        *[field for field in page_fields(page, varies=varies) if field[0] != "Content-Type"],
    ]
    return Answer(206, serialise_head(206, fields), body)
