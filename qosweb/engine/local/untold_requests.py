"""Untold requests: running requests of this node that the other nodes need not know of yet. Pure.

They hold channels here. The other nodes learn of them at their end, counted by class, or earlier if room becomes
scarce. Neighbours: ``local_queue`` starts, tells and ends them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.replicated.pipes import whole_channel

if TYPE_CHECKING:
    from qosweb.engine.local.requests import Request
    from qosweb.engine.replicated.bound_policy import BoundPolicy


class UntoldRequests:
    __slots__ = ("_bound", "_capacity_bps", "_channels_bps", "_ended", "running")

    def __init__(self) -> None:
        self.running: dict[Request, None] = {}
        self._bound: BoundPolicy | None = None  # the channels are by this policy and this capacity
        self._capacity_bps = 0
        self._channels_bps: dict[int, int] = {}  # by class, where the cost of a request does not matter
        self._ended: dict[int, list[int]] = {}  # by class: how many have ended since the last call, and their cost

    def channel_bps(self, bound: BoundPolicy, class_number: int, cost: int, capacity_bps: int) -> int:
        """The rate of the channel of a request, in a pipe with this capacity."""
        if bound is not self._bound or capacity_bps != self._capacity_bps:
            self._bound, self._capacity_bps = bound, capacity_bps
            self._channels_bps.clear()
        rate_bps = self._channels_bps.get(class_number)
        if rate_bps is None:
            rate_bps = whole_channel(bound.rate_bps(class_number, cost), capacity_bps)
            if not bound.terms[class_number].response_ms:
                self._channels_bps[class_number] = rate_bps
        return rate_bps

    def translate(self, numbers: list[int]) -> None:
        """Translate class numbers after a change of policy."""
        for request in self.running:
            request.class_number = numbers[request.class_number]
        ended, self._ended = self._ended, {}
        for number, (count, cost) in ended.items():
            total = self._ended.setdefault(numbers[number], [0, 0])
            total[0] += count
            total[1] += cost

    def end(self, request: Request, cost: int) -> None:
        """``request`` has ended with this cost."""
        del self.running[request]
        ended = self._ended.setdefault(request.class_number, [0, 0])
        ended[0] += 1
        ended[1] += cost

    def take_ended(self) -> list[tuple[int, int, int]]:
        """Those that have ended since the last call: class, count, cost."""
        if not self._ended:
            return []
        ended = [(number, count, cost) for number, (count, cost) in self._ended.items()]
        self._ended.clear()
        return ended
