"""Common types of the layers: effects for the runtime, and the shared context.

A layer is a pure automaton. It has one method for each input. It produces outputs by calling the layer above or below,
or by putting an effect into the outbox. Its local actions run until none is enabled before an input method returns. It
has no clock, no randomness and no input or output of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from cluster.durable import Record
from cluster.messages import Frame
from cluster.names import ProcessId, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action


class Effect(msgspec.Struct, frozen=True, gc=False):
    """A request of a process to its runtime. Effects take place one after the other, in the order of the outbox."""


class Send(Effect, frozen=True):
    """Sends this frame to each of these peers. It is lost for a peer without a connection."""

    to: tuple[ProcessId, ...]
    frame: Frame


class Persist(Effect, frozen=True):
    """Makes this record durable before the next effect takes place."""

    record: Record


class KnownPeers(Effect, frozen=True):
    """The processes known to exist. The runtime tries to keep a connection to each of them."""

    peers: tuple[ProcessId, ...]


class Delivered(Effect, frozen=True):
    """For the application: the outcome of one submission (delivered at `position`, or refused with a reason).

    Used for entries outside a run: refused, or inside a snapshot (position -1).
    """

    ticket: int
    delivered: bool
    position: int
    reason: str
    result: object


class DeliveredRun(Effect, frozen=True):
    """For the application: entries of this process were delivered as one run, from `position` on.

    The n-th ticket (0: no submitter waits) ended with the n-th result.
    """

    tickets: list[int]
    position: int
    results: Sequence[object]

    def ends(self) -> list[Delivered]:
        """The same outcomes, one by one."""
        return [
            Delivered(ticket, True, self.position + at, "", result)
            for at, (ticket, result) in enumerate(zip(self.tickets, self.results, strict=True))
            if ticket
        ]


class PrimaryChanged(Effect, frozen=True):
    """For the application: the primary view that this process is in now, or None."""

    view: View | None


class InterimAnswered(Effect, frozen=True):
    """For the client of the interim service: the result of its operation."""

    ticket: int
    result: object


class InterimRefreshed(Effect, frozen=True):
    """For the client of the interim service: its replica now has the common state of these members."""

    members: tuple[ProcessId, ...]


class QueryAnswered(Effect, frozen=True):
    """For the client of the data service: the answer to its query, from the state at `index`.

    `error`: the query failed, and why.
    """

    ticket: int
    answer: bytes
    index: int
    error: str


class LoadChanged(Effect, frozen=True):
    """For semantically reliable broadcast: the load of this member of the data service, of which the last one counts.

    `waiting`: queries that wait here. `service_us`: mean time for one; 0: not known.
    """

    waiting: int
    service_us: int


class Diverged(Effect, frozen=True):
    """For the application: the state of another replica at `position` differs from ours. One of the two is wrong."""

    position: int
    process: ProcessId
    ours: str
    theirs: str


class Outvoted(Effect, frozen=True):
    """For the application: the states of members at `position` differ, and this process is the one to start anew."""

    position: int
    ours: str
    theirs: str  # the digest of the state to keep
    kept: tuple[ProcessId, ...]  # the members that have this state


class Ejected(Effect, frozen=True):
    """The peer sent a message that violates the protocol. The message was ignored; the runtime disconnects the peer."""

    peer: ProcessId
    reason: str


class RandomSource(Protocol):
    """A seeded source of random numbers, passed in by the runner."""

    def random(self) -> float: ...


class Context:
    """State shared by all layers of a process: its id, the current time, its outbox and its trace observer."""

    __slots__ = ("chance", "is_volatile", "me", "now", "outbox", "taken", "trace")

    def __init__(
        self,
        me: ProcessId,
        chance: RandomSource,
        trace: Callable[[Action], None] | None = None,
        *,
        is_volatile: bool = False,
    ) -> None:
        self.me = me
        self.is_volatile = is_volatile  # no records are written, so nothing waits for the disk
        self.now = 0.0  # seconds of a monotonic clock; set before each input
        self.chance = chance
        self.outbox: list[Effect] = []
        self.taken = 0  # number of effects taken from the outbox in this life
        self.trace = trace

    def take(self) -> list[Effect]:
        outbox, self.outbox = self.outbox, []
        self.taken += len(outbox)
        return outbox
