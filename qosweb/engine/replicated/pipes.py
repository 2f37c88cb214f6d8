"""Pipe of one node in the replicated state: its capacity, its channels in use and granted, and its waiting requests.

Channels: the pipe is divided into as many channels of the requested size as fit, and these share the remainder: a pipe
with room for 3.8 channels has 3 that are faster than requested. A channel wider than the pipe is the whole pipe.
Room: a pipe is full when less than 1/ROOM of it is free. Where channels of different sizes are mixed the last one may
not fit; the node then gives it the rest, or half its size if that is more.
Grants ahead: a channel that is held for T becomes free, on average, LOOKAHEAD_MS / T times within LOOKAHEAD_MS. What a
full pipe of such channels will need within that time counts as free already,

    ahead = sum(rate * LOOKAHEAD_MS / T) over what is held, scaled down from all that is held to what the pipe holds,

so that the node has the next request ready when a channel becomes free, and does not wait for a decision. If less than
half a channel will become free, nothing is granted ahead: the request does better to wait for the first free node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cluster.names import ProcessId
    from qosweb.engine.replicated.upstreams import UpstreamReport

ROOM = 64
LOOKAHEAD_MS = 50
NEVER = -1
TRAVEL_MS = 100  # how long a redirected client may need to arrive


class PipeChannel(NamedTuple):
    """A channel in use or granted."""

    number: int  # of the class
    cost: int
    rate_bps: int
    ahead_bps: int
    weight_ppm: int  # the weight of its class when it was charged
    era: int  # of the charge (see the scheduler); NEVER if there was none


def held(number: int, cost: int, rate_bps: int, weight_ppm: int = 0, era: int = NEVER, *, visits: bool) -> PipeChannel:
    travel_ms = TRAVEL_MS if visits else 0
    hold_ms = cost * 1000 // rate_bps + travel_ms or 1
    return PipeChannel(number, cost, rate_bps, rate_bps * (LOOKAHEAD_MS + travel_ms) // hold_ms, weight_ppm, era)


def whole_channel(rate_bps: int, capacity_bps: int) -> int:
    """The rate of a channel if the pipe is divided evenly into channels of at least `rate_bps`."""
    return max(1, capacity_bps // max(1, capacity_bps // rate_bps))


class Pipe:
    """The pipe of one node."""

    __slots__ = (
        "ahead_bps",
        "capacity_bps",
        "channels",
        "language",
        "load_ppm",
        "upstreams",
        "url",
        "used_bps",
        "waiting",
        "wall_ms",
    )

    def __init__(self) -> None:
        self.capacity_bps = 0  # until the node reports
        self.load_ppm = 0
        self.wall_ms = 0
        self.url = ""
        self.language = 0  # the latest policy language its node reads; 0 until the node reports
        self.upstreams: tuple[UpstreamReport, ...] = ()  # the upstream servers of the node
        self.channels: dict[tuple[ProcessId, int], PipeChannel] = {}  # by owner and number
        self.used_bps = 0
        self.ahead_bps = 0
        self.waiting: dict[int, int] = {}  # the class of each waiting request, by its number

    @property
    def free_bps(self) -> int:
        """Capacity that may still be granted; may be negative."""
        capacity, used = self.capacity_bps, self.used_bps
        ahead = self.ahead_bps if used <= capacity else self.ahead_bps * capacity // used
        return capacity + ahead - used

    @property
    def has_free_channel(self) -> bool:
        return self.used_bps * ROOM < self.capacity_bps * (ROOM - 1)

    @property
    def has_room(self) -> bool:
        """There is a free channel, or one to grant ahead."""
        used, capacity = self.used_bps, self.capacity_bps
        if used * ROOM < capacity * (ROOM - 1):
            return True
        ahead = self.ahead_bps
        if not ahead or not capacity:
            return False
        if used > capacity:
            ahead = ahead * capacity // used
        return 2 * (capacity + ahead - used) * len(self.channels) >= used  # free_bps is at least half a channel

    def take(self, owner: ProcessId, number: int, channel: PipeChannel) -> None:
        if (owner, number) in self.channels:  # a faulty owner used the number of a redirected request again
            self.give_back(owner, number)
        self.channels[owner, number] = channel
        self.used_bps += channel.rate_bps
        self.ahead_bps += channel.ahead_bps

    def give_back(self, owner: ProcessId, number: int) -> PipeChannel | None:
        channel = self.channels.pop((owner, number), None)
        if channel is not None:
            self.used_bps -= channel.rate_bps
            self.ahead_bps -= channel.ahead_bps
        return channel
