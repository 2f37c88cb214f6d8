"""A node's pipe as the machine sees it: capacity, the channels in use and granted, and who waits there.

Room: a pipe holds channels until the sum of their rates reaches its capacity; the last one may go beyond (the node then
gives each its part of the pipe), since a pipe that is filled only as far as whole channels go would stand partly idle.
Grants ahead: a channel that is held for T becomes free, in the mean, LOOKAHEAD_MS / T times within LOOKAHEAD_MS. What a
full pipe of such channels will need within that time counts as free already,

    ahead = sum(rate * LOOKAHEAD_MS / T) over what is held, scaled down from all that is held to what the pipe holds,

so that the node has the next request ready when a channel becomes free, and need not wait for a decision. Where less
than half a channel will become free, nothing is granted ahead: it had better wait for whichever node is free first.
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
    return Held(number, cost, rate_bps, rate_bps * (LOOKAHEAD_MS + travel_ms) // hold_ms)


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
        capacity, used = self.capacity_bps, self.used_bps
        ahead = self.ahead_bps if used <= capacity else self.ahead_bps * capacity // used
        return capacity + ahead - used

    @property
    def has_room(self) -> bool:
        used = self.used_bps
        return used < self.capacity_bps or 2 * self.free_bps * len(self.channels) >= used > 0 < self.capacity_bps

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
