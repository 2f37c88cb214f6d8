"""One request at the node that holds its socket: its phases, and the decisions the engine can make about it.

    arrives --> WAITING --> READY --> RUNNING --> over
           \\-> RUNNING       |  \\-> over (redirected)      RUNNING <--> LENT --> over
                             over (denied, client gone, expired)

READY: the request was granted a channel here that is not free yet.
LENT: its client does not read, so that the request gave its channel back until it can use one again.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

import msgspec

from cluster.names import ProcessId

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.engine.laws.service_samples import Tag


class Phase(Enum):
    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    LENT = "lent"
    OVER = "over"


WAITING, READY, RUNNING, LENT, OVER = Phase  # module names, because access to enum members is slow


class Start(msgspec.Struct, frozen=True):
    """The request may start now, at this rate. `since_s`: when its channel became free, if not just now."""

    rate_bps: int
    since_s: float | None = None


class GoTo(msgspec.Struct, frozen=True):
    """The request may start at another node, which holds a channel for it."""

    node: ProcessId
    url: str
    rate_bps: int
    left_ms: int | None = None  # rest of its lifetime, if it has one


class Deny(msgspec.Struct, frozen=True):
    """The request may not start."""

    reason: str  # one word, for logs and metrics
    because: str  # a sentence, for people
    retry_s: int
    is_expired: bool = False  # it waited for its whole lifetime
    is_of_client: bool = False  # because of a bound on its client, not for lack of capacity


Decision = Start | GoTo | Deny

FULL: Final = "queue_full"
TOO_FAR: Final = "cannot_be_reached"
OVER_BOUND: Final = "bound"
CLIENT_BOUND: Final = "client_bound"
EXPIRED: Final = "lifetime"
MINORITY: Final = "minority"
DRAINING: Final = "draining"


class Request:
    """One unfinished request."""

    __slots__ = ("class_number", "cost", "deadline_ms", "decided", "exceeds", "is_visitor", "number", "owner",
                 "phase", "rate_bps", "server", "settled", "submitted",
                 "tag")  # fmt: skip

    def __init__(
        self,
        number: int,
        class_number: int,
        cost: int,
        deadline_ms: int | None = None,
        decided: Callable[[Decision], None] | None = None,
    ) -> None:
        self.number = number
        self.class_number = class_number
        self.cost = cost
        self.deadline_ms = deadline_ms  # by the node's own clock
        self.decided = decided
        self.phase = WAITING
        self.rate_bps = 0
        self.server = ""  # where it runs, if it is an upstream server
        self.exceeds = False  # it started although the pipe was full
        self.settled = 0  # the part of its real cost that was charged when it lent its channel
        self.tag: Tag = (0, 1)  # for the sample of its service time there
        self.submitted = False  # the other nodes have been told
        self.is_visitor = False  # redirected here: the redirecting node has counted it
        self.owner: ProcessId | None = None  # the redirecting node, if it was redirected here
