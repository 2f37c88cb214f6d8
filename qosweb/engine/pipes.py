"""A node's pipe as the machine sees it: capacity, the channels in use and granted, and who waits there.

Room: a pipe holds channels until the sum of their rates reaches its capacity; the last one may go beyond (the node then
gives each its part of the pipe), since a pipe that is filled only as far as whole channels go would stand partly idle.
Grants ahead: of each channel that is held, the part that will be free within LOOKAHEAD_MS counts as free already,

    ahead = rate * min(1, LOOKAHEAD_MS / time that the channel is held)

so that the node has the next request ready when a channel becomes free, and never has to wait for a decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cluster.names import ProcessId

LOOKAHEAD_MS = 50
TRAVEL_MS = 100  # how long a redirected client may need to come


class Held(NamedTuple):
    number: int  # of the class
    cost: int
    rate_bps: int
    ahead_bps: int


def held(number: int, cost: int, rate_bps: int, *, visits: bool) -> Held:
    travel_ms = TRAVEL_MS if visits else 0
    hold_ms = max(1, cost * 1000 // rate_bps + travel_ms)
    return Held(number, cost, rate_bps, rate_bps * min(hold_ms, LOOKAHEAD_MS + travel_ms) // hold_ms)


class Pipe:
    __slots__ = ("ahead_bps", "capacity_bps", "channels", "load_ppm", "url", "used_bps", "waiting", "wall_ms")

    def __init__(self) -> None:
        self.capacity_bps = 0  # until it reports
        self.load_ppm = 0
        self.wall_ms = 0
        self.url = ""
        self.channels: dict[tuple[ProcessId, int], Held] = {}  # by owner and number
        self.used_bps = 0
        self.ahead_bps = 0
        self.waiting: dict[int, int] = {}  # the class of each number that waits here

    @property
    def free_bps(self) -> int:
        """What may still be granted, as far as it is positive."""
        return self.capacity_bps + self.ahead_bps - self.used_bps

    def take(self, owner: ProcessId, number: int, channel: Held) -> None:
        self.channels[owner, number] = channel
        self.used_bps += channel.rate_bps
        self.ahead_bps += channel.ahead_bps

    def give_back(self, owner: ProcessId, number: int) -> Held | None:
        channel = self.channels.pop((owner, number), None)
        if channel is not None:
            self.used_bps -= channel.rate_bps
            self.ahead_bps -= channel.ahead_bps
        return channel
