"""Exchange: the state of one request and its response while the request passes the pipeline."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qosweb.http.request_heads import EXPECT
from qosweb.http.targets import BadTarget, parse_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.admission import ClassAccount, Decided, Permit, Wait
    from qosweb.engine.local.request_ids import RequestId
    from qosweb.http.hops import OutgoingFields
    from qosweb.http.request_heads import RequestHead
    from qosweb.http.targets import RequestTarget
    from qosweb.http.upstream_heads import UpstreamHead
    from qosweb.server.files.page_store import Failure
    from qosweb.server.files.pages import Page, Resource
    from qosweb.server.proxy.request_body import RequestBody
    from qosweb.server.releases.release_tree import SiteView
    from qosweb.server.request.ignored_body import IgnoredBody


class Waiting(enum.Enum):
    """Returned by a stage that has to wait. The exchange continues at the same stage when it is resumed."""

    WAITING = enum.auto()


WAITING: Final = Waiting.WAITING

PATH_LOGGED_MAX = 512


@dataclass(slots=True, eq=False)
class Exchange:
    """One request. Implements `qosweb.admission.facts.RequestFacts`."""

    head: RequestHead
    has_body: bool
    client: str
    arrived: float
    started: float
    resume: Callable[[Exchange], None]
    proxy: str = ""  # the trusted proxy or node that sent the request for `client`, if there is one
    is_from_node: bool = False  # another node of the cluster forwards it, as its ticket proves
    host: str = ""
    target: RequestTarget | None = None
    key: str = ""  # the escaped path of the target
    release: SiteView | None = None  # of the site, if the cluster stores it
    has_waited_for_release: bool = False  # as its client has seen a newer one than this node
    is_internal: bool = False  # of another node of the cluster, for its own use: not logged
    resource: Resource | None = None
    failure: Failure | None = None  # why there is no resource
    page: Page | None = None
    account: ClassAccount | None = None  # of its class, once the class is known
    expected_size: int | None = None  # of the response body, if known before the page is found
    is_recorded: bool = False  # the access history has it
    wait: Wait | None = None  # set while it is queued
    decided: Decided | None = None  # the outcome of admission control
    permit: Permit | None = None  # set while it is in service
    slot: Permit | None = None  # its permit with a slot of an upstream server, also after the end of service
    pool: str = ""  # the pool of servers that it needs a slot of
    rid: RequestId | None = None  # set if it came from another node, goes to one, or is relayed
    outcome: str = ""  # the decision for the access log, if it does not follow from the response
    reason: str = ""  # of its denial
    upstream_s: float | None = None  # until the response of another server began, or failed
    ignored_body: IgnoredBody | None = None  # which the connection reads before the request continues
    request_body: RequestBody | None = None  # for another server
    ticket: str | None = None  # from the query of the target; see qosweb.engine.local.tickets
    outgoing: OutgoingFields | None = None  # its fields for another server
    request_id: str = ""  # that a trusted proxy gave it
    first_byte_at: float | None = None  # when another server began to respond
    was_delayed: bool = False  # by its client, the disk or another server: its service time does not measure this node
    stage: int = 0  # index of the current stage
    rereads: int = 0
    forget: Callable[[], None] | None = None  # set while it waits: cancels the wait

    def on_decided(self, decided: Decided, at: float) -> None:
        """Admission control has decided after a wait."""
        self.wait = self.forget = None
        self.decided = decided
        self.started = at
        self.resume(self)

    def leave_server(self, status: int, size: int) -> None:
        """The upstream server is done: its slot is free while the client reads. `status` 0: there was no response.

        `size`: bytes of the response body.
        """
        if self.permit is not None:
            self.permit.leave_server(size, failed=not 0 < status < 500)

    def note_cost(self, head: UpstreamHead) -> None:
        """A response of the upstream server has begun. It may say what the request costs."""
        permit = self.permit
        if permit is not None and (name := permit.cost_header) is not None:
            permit.stated_costs = head.values(name)

    def withdraw(self) -> None:
        """The client left while the upstream server worked on its request."""
        if self.permit is not None:
            self.permit.leave_server(withdrawn=True)

    # ---- RequestFacts

    @property
    def method(self) -> str:
        return self.head.method

    @property
    def page_key(self) -> str:
        """The key of its page in the store."""
        return self.key if self.release is None else self.release.key_prefix + self.key

    @property
    def path(self) -> str | None:
        try:  # a request that was rejected for its method has no parsed target
            return (self.target or parse_target(self.head.target, must_be_file=False)).path
        except BadTarget:
            return None

    @property
    def origin_form(self) -> str:
        return self.head.target if self.target is None else self.target.origin_form

    @property
    def file(self) -> Page | None:
        return None if self.resource is None else self.resource.plain

    def field_lines(self, name: str) -> list[str]:
        return self.head.values(name)

    @property
    def is_head(self) -> bool:
        return self.head.method == "HEAD"

    @property
    def waits_for_body(self) -> bool:
        """Whether the connection has to read more of the body before the request continues."""
        if self.request_body is not None:
            return self.request_body.holds_up
        return self.ignored_body is not None and not self.ignored_body.is_over

    @property
    def has_unread_body(self) -> bool:
        return self.has_body and (self.request_body is None or not self.request_body.is_complete)

    @property
    def keeps_alive(self) -> bool:
        return not (self.head.must_close or self.head.upgrades or self.has_unread_body)

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for 100 Continue before it sends the body."""
        return bool(self.head.bits & EXPECT) and self.head.is_http_1_1

    @property
    def wants_keep_alive_line(self) -> bool:
        return not self.head.is_http_1_1 and self.keeps_alive

    @property
    def logged_path(self) -> str:
        return self.key if self.target is not None else self.head.target[:PATH_LOGGED_MAX]

    def field(self, name: str) -> str | None:
        """The value of a header field, its lines joined as in RFC 9110 section 5.3; None if it is absent."""
        return self.head.value(name)
