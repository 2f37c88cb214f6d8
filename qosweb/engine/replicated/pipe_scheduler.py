"""Scheduler of the nodes' pipes: chooses which waiting requests start, and at which node.

The class is chosen before the node, by `fair_queueing`. The scheduler takes the entry of that class that has waited
longest at a node with a free channel. If the class waits at no such node, it takes the entry that has waited longest
anywhere, and sends it to the node with most room.

Choosing examines each waiting class and each node where it waits, however many requests wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.names import ProcessId
from qosweb.engine.replicated.fair_queueing import FairScheduler
from qosweb.engine.replicated.pipes import Pipe, PipeChannel, held, whole_channel

if TYPE_CHECKING:
    from qosweb.engine.replicated.bound_policy import BoundPolicy
    from qosweb.engine.replicated.classes import ClassState

Start = tuple[int, ProcessId, int, ProcessId, PipeChannel]  # class, owner, number, node, channel

CHANNELS_KEPT_MAX = 4096


class PipeScheduler(FairScheduler[ProcessId, Pipe, Start]):
    """Chooses which waiting requests start, and at which node."""

    __slots__ = ("_channels", "_channels_of", "may_redirect")

    def __init__(self) -> None:
        super().__init__()
        self.may_redirect = True
        self._channels: dict[tuple[int, int, int, int, int, bool], PipeChannel] = {}  # cached channels
        self._channels_of: BoundPolicy | None = None  # the policy that the cached channels depend on

    @property
    def pipes(self) -> dict[ProcessId, Pipe]:
        return self.places

    @property
    def capacity_per_s(self) -> int:
        return sum(pipe.capacity_bps for pipe in self.places.values())

    def _place(self, chosen: ClassState, roomy: list[ProcessId]) -> tuple[ProcessId, ProcessId] | None:
        """The owner of the request to start, and the node where it starts."""
        if len(roomy) == 1:
            if roomy[0] in chosen.queues:
                return roomy[0], roomy[0]
        elif at_home := [pid for pid in roomy if pid in chosen.queues]:
            home = at_home[0] if len(at_home) == 1 else min(at_home, key=lambda pid: chosen.oldest(pid)[1].seq)
            return home, home
        if not self.may_redirect:
            return None
        owner = min(chosen.queues, key=lambda pid: chosen.oldest(pid)[1].seq)
        return owner, max(roomy, key=lambda pid: self.pipes[pid].free_bps)

    def _start(
        self, class_number: int, chosen: ClassState, owner: ProcessId, at: ProcessId, place: Pipe, now_ms: int
    ) -> Start:
        number, cost, weight, era = self._take(class_number, chosen, owner, now_ms)
        visits = at is not owner and at != owner
        del (self.pipes[owner] if visits else place).waiting[number]
        bound = self.bound
        key = class_number, cost, place.capacity_bps, weight, era, visits
        channel = self._channels.get(key) if self._channels_of is bound else None
        if channel is None:
            channel = self._channel(key)
        place.take(owner, number, channel)
        return class_number, owner, number, at, channel

    def _channel(self, key: tuple[int, int, int, int, int, bool]) -> PipeChannel:
        """Compute and cache a channel: requests for the same page repeat."""
        if self._channels_of is not self.bound or len(self._channels) >= CHANNELS_KEPT_MAX:
            self._channels_of = self.bound
            self._channels.clear()
        number, cost, capacity_bps, weight, era, visits = key
        rate = whole_channel(self.bound.rate_bps(number, cost), capacity_bps)
        channel = self._channels[key] = held(number, cost, rate, weight, era, visits=visits)
        return channel
