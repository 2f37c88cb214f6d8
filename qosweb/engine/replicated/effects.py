"""Effects: outputs of the state machine to its own node after an entry. They are not part of the replicated state."""

from __future__ import annotations

import msgspec

from cluster.names import ProcessId, View


class Granted(msgspec.Struct, frozen=True):
    """A request of ours may start: here, or at the node `at`."""

    number: int
    at: ProcessId
    rate_bps: int


class Reserved(msgspec.Struct, frozen=True):
    """A channel here is held for a request of another node, which will come with a ticket."""

    owner: ProcessId
    number: int
    class_number: int
    cost: int
    rate_bps: int


class RestatementNeeded(msgspec.Struct, frozen=True):
    """The others know nothing of us: we are new, or were away. Say everything again."""


class RestatementApplied(msgspec.Struct, frozen=True):
    """The others know what we restated for the `count`th time."""

    count: int


class PolicyChanged(msgspec.Struct, frozen=True):
    position: int
    text: str


class Viewed(msgspec.Struct, frozen=True):
    position: int
    view: View


class Reported(msgspec.Struct, frozen=True):
    """The capacity of a node was fixed at this place of the order."""

    position: int
    node: ProcessId
    capacity_bps: int


class EntryRejected(msgspec.Struct, frozen=True):
    """An entry, or the policy in it, that all replicas pass over, each for the same reason."""

    position: int
    origin: ProcessId
    because: str
    text: str | None = None  # of the policy; None: the whole entry


Effect = Granted | Reserved | RestatementNeeded | RestatementApplied | PolicyChanged | Viewed | Reported | EntryRejected
