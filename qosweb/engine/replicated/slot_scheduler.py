"""Scheduler of a pool of upstream servers: chooses which waiting requests start, and at which server.

The class is chosen by `fair_queueing`; work is slot time. Then the request of the class that has waited longest starts
at the server with most free slots for its limit, whichever node holds its socket.
Bounds that are always enforced: those on requests and bytes are the same as for the pipes, with the same buckets. A
hard share is a number of slots here, at least one. Always-available requests may exceed a limit (see `servers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.replicated.fair_queueing import FairScheduler
from qosweb.engine.replicated.servers import SLOT, Server, SlotUse
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.names import ProcessId
    from qosweb.engine.replicated.bound_policy import BoundPolicy
    from qosweb.engine.replicated.classes import ClassState

SlotStart = tuple["ProcessId", int, str]  # owner, number, server

_NONE: Mapping[str, int] = {}


class SlotScheduler(FairScheduler[str, Server, SlotStart]):
    """Chooses which waiting requests of a pool start, and at which server."""

    __slots__ = ()

    @property
    def capacity_per_s(self) -> int:
        return SLOT * self.slots

    @property
    def slots(self) -> int:
        return sum(server.slots for server in self.places.values())

    def bind(self, bound: BoundPolicy) -> None:
        self.bound = bound
        self.buckets_of = bound.slot_buckets_of

    def _divided(self, demand_ppm: list[int]) -> tuple[int, ...]:
        return self.bound.slot_shares(demand_ppm)

    def starts(self, now_ms: int, waiting: list[int]) -> list[SlotStart]:
        begun: list[SlotStart] = []
        always = [number for number in waiting if self.bound.always[number]]
        for number in sorted(always, key=lambda one: self._key(one, self.classes[one])):
            chosen = self.classes[number]
            while chosen.waiting:
                roomy = [name for name, server in self.places.items() if server.has_room_for_always]
                found = self._place(chosen, roomy) if roomy else None
                if found is None:
                    break
                owner, at = found
                begun.append(self._start(number, chosen, owner, at, self.places[at], now_ms))
        if always:
            waiting = [number for number in waiting if not self.bound.always[number]]
        return begun + super().starts(now_ms, waiting)

    def take_tokens(self, number: int, requests: int, cost: int, now_ms: int) -> None:  # noqa: ARG002
        """Take tokens for requests. Bytes are charged to the node that sends them."""
        super().take_tokens(number, requests, 0, now_ms)

    def has_tokens(self, number: int, now_ms: int) -> bool:
        return self._is_within_slots(number) and super().has_tokens(number, now_ms)

    def _is_open(self, number: int, now_ms: int) -> bool:
        return self._is_within_slots(number) and super()._is_open(number, now_ms)

    def _is_within_slots(self, number: int) -> bool:
        for share_ppm, classes in self.bound.slot_bounds_of[number]:
            running = sum(server.running.get(one, 0) for server in self.places.values() for one in classes)
            if running >= max(1, self.slots * share_ppm // PPM):
                return False
        return True

    def _place(self, chosen: ClassState, roomy: list[str]) -> tuple[ProcessId, str] | None:
        owner = min(chosen.queues, key=lambda pid: chosen.oldest(pid)[1].seq)
        return owner, most_free(self.places, roomy, chosen.oldest(owner)[1].seq)

    def _start(
        self, class_number: int, chosen: ClassState, owner: ProcessId, at: str, place: Server, now_ms: int
    ) -> SlotStart:
        number, cost, weight, era = self._take(class_number, chosen, owner, now_ms)
        use = SlotUse(class_number, cost, weight, era, self.bound.always[class_number])
        place.take(owner, number, use)
        return owner, number, at


def most_free(servers: dict[str, Server], roomy: list[str], turn: int, untold: Mapping[str, int] = _NONE) -> str:
    """The server with most free slots for its limit; those that are equally free take turns.

    `untold`: more slots in use, by server.
    """
    if len(roomy) == 1:
        return roomy[0]
    start = turn % len(roomy)

    def free_ppm(name: str) -> int:
        return (servers[name].free - untold.get(name, 0)) * PPM // max(1, servers[name].slots)

    return max((*roomy[start:], *roomy[:start]), key=free_ppm)
