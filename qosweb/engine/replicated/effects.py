"""Effects: outputs of the state machine to its own node after an entry. They are not part of the replicated state."""

from __future__ import annotations

import msgspec

from cluster.names import ProcessId, View
from qosweb.engine.laws.service_samples import SampleBatch


class Granted(msgspec.Struct, frozen=True):
    """A request of this node may start: here, or at the node `at`."""

    number: int
    at: ProcessId
    rate_bps: int


class Reserved(msgspec.Struct, frozen=True):
    """A channel here is held for a request that another node redirects here with a ticket."""

    owner: ProcessId
    number: int
    class_number: int
    cost: int
    rate_bps: int


class SlotGranted(msgspec.Struct, frozen=True):
    """A request of this node may start at a server."""

    pool: tuple[str, ...]
    number: int
    server: str
    epoch: int  # of the limit
    in_service: int  # at the server, with this one
    is_limited: bool  # it has the last free slot


class Sampled(msgspec.Struct, frozen=True):
    """A node reports service times at a server whose limit this node decides."""

    server: str
    rows: SampleBatch


class RestatementNeeded(msgspec.Struct, frozen=True):
    """The replicas know nothing of this node, which is new or was away: it has to restate everything."""


class RestatementApplied(msgspec.Struct, frozen=True):
    """The replicas have applied this node's restatement number `count`."""

    count: int


class PolicyChanged(msgspec.Struct, frozen=True):
    position: int
    text: str


class Viewed(msgspec.Struct, frozen=True):
    position: int
    view: View


class Reported(msgspec.Struct, frozen=True):
    """The capacity of a node changed at this position of the order."""

    position: int
    node: ProcessId
    capacity_bps: int


class UpstreamsReported(msgspec.Struct, frozen=True):
    """The upstream servers of a node, or their health, changed at this position of the order."""

    position: int
    node: ProcessId


class EntryRejected(msgspec.Struct, frozen=True):
    """All replicas skip an entry, or the policy in it, for the same reason."""

    position: int
    origin: ProcessId
    because: str
    text: str | None = None  # of the rejected policy; None: the whole entry is rejected


Effect = (
    Granted
    | Reserved
    | SlotGranted
    | Sampled
    | RestatementNeeded
    | RestatementApplied
    | PolicyChanged
    | Viewed
    | Reported
    | UpstreamsReported
    | EntryRejected
)
