"""Outcomes of admission control: permit, denial, redirect, forward or wait.

    enter --> Permit              the request may start; `close` charges its cost
          --> Denial              the request may not start; carries the response
          --> Redirect, Forward   another node of the cluster holds a channel for the request
          --> Wait                undecided; one of the above follows, unless `cancel` comes first

Each outcome names the account of the request's class and, if the request has been or goes to another node, the request
id under which the logs of both nodes show it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.admission.class_accounts import ClassAccount
    from qosweb.engine.local.request_ids import RequestId
    from qosweb.engine.local.requests import Request
    from qosweb.engine.local.slot_queue import Lane, SlotQueue

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Denial:
    """The request may not start. `status`, `fields` and `text` are for the response."""

    account: ClassAccount
    rid: RequestId | None
    status: int  # 503 for lack of capacity, 429 for a bound on the client
    fields: Fields  # Retry-After, QoS-Decision
    text: str  # a sentence for people
    reason: str  # one word, for logs and metrics
    decision: str  # denied or expired, for the access log


@dataclass(frozen=True, slots=True)
class Redirect:
    """The client is to repeat the request at another node. `status`, `fields` and `text` are for the response."""

    account: ClassAccount
    rid: RequestId
    fields: Fields  # Location with a ticket, Cache-Control, QoS-Decision
    text: str
    status: int = 307
    decision: str = "redirected"


@dataclass(frozen=True, slots=True)
class Forward:
    """This node is to ask another node for the response and pass it on."""

    account: ClassAccount
    rid: RequestId
    origin: str  # http://host:port
    target: str  # with a ticket
    node: str  # its name
    decision: str = "forwarded"


class Issuer(Protocol):
    """The gate that issued a permit."""

    def settle(self, permit: Permit, bytes_sent: int, *, is_sample: bool) -> None: ...
    def resize(self, permit: Permit, size: int) -> None: ...
    def leave_server(self, permit: Permit, response_bytes: int, *, failed: bool, withdrawn: bool) -> None: ...
    def cost_header(self, permit: Permit) -> str | None: ...
    def pace(self, permit: Permit) -> bool: ...
    def lend(self, permit: Permit, bytes_sent: int) -> None: ...
    def reclaim(self, permit: Permit, bytes_left: int) -> bool: ...


class Permit:
    """The right to be served, until `close`."""

    __slots__ = (
        "_issuer",
        "account",
        "fixed_bytes",
        "learns_size",
        "meter_mark",
        "queue",
        "rate_bps",
        "request",
        "resource",
        "rid",
        "server",
        "slot_since",
        "stated_costs",
        "work_s",
    )

    def __init__(
        self,
        issuer: Issuer,
        account: ClassAccount,
        rid: RequestId | None,
        request: Request | None,
        meter_mark: tuple[float, float],
        *,
        rate_bps: int | None = None,
        fixed_bytes: int = 0,
        learns_size: bool = False,
        queue: SlotQueue | None = None,
        slot_since: float = 0.0,
    ) -> None:
        self._issuer: Issuer | None = issuer
        self.account = account
        self.rid = rid
        self.request = request  # as the engine knows it, if there is an engine
        self.meter_mark = meter_mark  # see CapacityMeter
        self.rate_bps = rate_bps  # of its channel: the minimum rate of a paced response; None: it is not paced
        self.fixed_bytes = fixed_bytes  # cost of the request in addition to its body
        self.queue = queue  # of the upstream servers, if it has a slot of one
        self.server = "" if queue is None or request is None else request.server.partition("@")[0]
        self.resource = "" if queue is None or request is None else request.server  # the same as the engine knows it
        self.slot_since = slot_since
        self.stated_costs: Sequence[str] | None = None  # values of the response header `cost_header`
        self.work_s = 0.0  # its cost, once it has left the server: the time it held its slot, or alike
        self.learns_size = learns_size  # the size was unknown at entry: the class's mean was charged

    def resize(self, size: int) -> None:
        """Set the size of the body, which has become known; service begins now."""
        if self._issuer is not None:
            self._issuer.resize(self, size)

    @property
    def cost_header(self) -> str | None:
        """The response header that says the cost, if one does. Its values are to be set as `stated_costs`."""
        return None if self._issuer is None or self.queue is None else self._issuer.cost_header(self)

    def leave_server(self, response_bytes: int = 0, *, failed: bool = False, withdrawn: bool = False) -> None:
        """The upstream server is done with the request: its slot is free. Later calls do nothing.

        `failed`: it did not respond, or with an error. `withdrawn`: the client left before.
        """
        if self._issuer is not None and self.queue is not None:
            self._issuer.leave_server(self, response_bytes, failed=failed, withdrawn=withdrawn)

    def pace(self) -> bool:
        """Responses are paced from now on: set `rate_bps`. False: this one has no channel."""
        return self._issuer is not None and self._issuer.pace(self)

    def lend(self, bytes_sent: int) -> None:
        """Release the channel, because the client does not read. `bytes_sent`: of the body, so far."""
        if self._issuer is not None:
            self._issuer.lend(self, bytes_sent)

    def reclaim(self, bytes_left: int) -> bool:
        """Take a channel again after `lend`. False: there is none now. `bytes_left`: of the body, as far as known."""
        return self._issuer is not None and self._issuer.reclaim(self, bytes_left)

    def close(self, bytes_sent: int, *, is_sample: bool = True) -> None:
        """End the request and charge the bytes of body that were really sent. Later calls do nothing.

        `is_sample` tells whether the service time measures this node: the response was complete, and neither the client
        nor another server delayed it.
        """
        issuer, self._issuer = self._issuer, None
        if issuer is not None:
            issuer.settle(self, bytes_sent, is_sample=is_sample)


class Hold:
    """A slot that a request of the fast path holds while an upstream server answers it."""

    __slots__ = ("account", "queue", "request", "since")

    def __init__(
        self, account: ClassAccount, request: Request | Lane | None, queue: SlotQueue | None = None, since: float = 0.0
    ) -> None:
        self.account = account
        self.queue = queue  # of the upstream servers, if there is an engine
        self.since = since
        self.request = request  # as the engine knows it, if there is an engine

    @property
    def resource(self) -> str:
        """The upstream server, as the engine knows it."""
        return "" if self.request is None else self.request.server


class Wait(ABC):
    """A queued request."""

    __slots__ = ("account", "rid")

    def __init__(self, account: ClassAccount, rid: RequestId | None) -> None:
        self.account = account
        self.rid = rid

    @abstractmethod
    def cancel(self) -> None:
        """Leave the queue, because the client is gone. No decision follows; a granted channel is given back."""


Decided = Permit | Denial | Redirect | Forward
OnDecided = Callable[[Decided, float], None]  # the outcome, and when it was decided on the monotonic clock
