"""What a layer is, and what it may use of the world around it.

A layer is a pure automaton: a method for each input, outputs by calling the neighbour above or below or by an effect in
the outbox, its local actions run until none is enabled before an input method returns. No clock, no randomness and no
input or output of its own.
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
    """What a process asks of its runtime. Effects take place in the order of the outbox, one after the other."""


class Send(Effect, frozen=True):
    """Put this frame on the connection to each of these, where there is one; else it is lost."""

    to: tuple[ProcessId, ...]
    frame: Frame


class Persist(Effect, frozen=True):
    """Make this durable before the next effect takes place."""

    record: Record


class KnownPeers(Effect, frozen=True):
    """These processes exist; the runtime keeps a connection to each of them as far as it can."""

    peers: tuple[ProcessId, ...]


class Delivered(Effect, frozen=True):
    """For the application: an entry of this process ended (delivered at `position`, or refused with a reason).

    An effect of its own where it was in no run: refused, or inside a snapshot (position -1).
    """

    ticket: int
    delivered: bool
    position: int
    reason: str
    result: object


class DeliveredRun(Effect, frozen=True):
    """For the application: entries of this process were delivered, at `position` and after, as one run.

    The n-th ticket (0: nobody waits) ended with the n-th result.
    """

    tickets: list[int]
    position: int
    results: Sequence[object]

    def ends(self) -> list[Delivered]:
        """The same, one by one."""
        return [
            Delivered(ticket, True, self.position + at, "", result)
            for at, (ticket, result) in enumerate(zip(self.tickets, self.results, strict=True))
            if ticket
        ]


class PrimaryChanged(Effect, frozen=True):
    """For the application: the primary view this process is in now, or None."""

    view: View | None


class Diverged(Effect, frozen=True):
    """For the application: another replica's state at `position` is not what ours was. One of the two is wrong."""

    position: int
    process: ProcessId
    ours: str
    theirs: str


class Outvoted(Effect, frozen=True):
    """For the application: of the members whose states at `position` differ, this process is the one to start anew."""

    position: int
    ours: str
    theirs: str  # the digest that counts
    kept: tuple[ProcessId, ...]  # the members that have it


class Ejected(Effect, frozen=True):
    """This peer said what no process that keeps to the protocol says. It was ignored, and the peer is to be cut off."""

    peer: ProcessId
    reason: str


class RandomSource(Protocol):
    """A seeded source of random numbers, handed in."""

    def random(self) -> float: ...


class Context:
    """What all layers of one process share: who it is, what time it is, its outbox, and who listens to its trace."""

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
        self.is_volatile = is_volatile  # records are written nowhere, so nothing waits for them
        self.now = 0.0  # seconds of a clock that only goes forward; set before each input
        self.chance = chance
        self.outbox: list[Effect] = []
        self.taken = 0  # effects that left the outbox, in this life
        self.trace = trace

    def take(self) -> list[Effect]:
        outbox, self.outbox = self.outbox, []
        self.taken += len(outbox)
        return outbox
