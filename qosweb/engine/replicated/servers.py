"""One upstream server in the replicated state: its limit of slots, and the requests that occupy them.

A slot is one request in service at the server. Work is slot time in microseconds, so a server with n slots does n
million a second. The limit is an ordered decision of the one member that runs the law for the server; `slots_max` is
the bound by hand. Outside the primary view a node uses its part of the slots of a shared server. So that both sides
together stay within the limit, the part of a member that left without notice is reserved for RESERVED_MS.
Nodes start requests at once while no request waits. When one begins to wait, the slots that they may have taken since
the last entry are kept for KEPT_MS: then they are known. So a limit is exceeded by at most one slot for each node.
Identity: a shared server is known by its name, any other one by its name and its node.
Neighbours: `upstreams` has the tables of the nodes, `server_pool` the queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qosweb.engine.replicated.upstreams import Vote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cluster.names import ProcessId
    from qosweb.engine.replicated.pipes import Pipe
    from qosweb.engine.replicated.upstreams import UpstreamReport

SLOT = 1_000_000  # work of one slot in a second: microseconds
RESERVED_MS = 10_000
KEPT_MS = 20  # longer than a node takes to tell what it has started

PoolKey = tuple[str, ...]  # the servers of the pool


class SlotUse(NamedTuple):
    """A slot in use or granted."""

    number: int  # of the class
    cost: int  # microseconds, as estimated
    weight_ppm: int  # the weight of its class when it was charged
    era: int  # of the charge
    is_always: bool


class Server:
    """One upstream server."""

    __slots__ = ("always", "decider", "epoch", "is_out", "kept", "level", "limit", "open_ms", "reserved", "running",
                 "slots_max", "uses")  # fmt: skip

    def __init__(self, limit: int = 0) -> None:
        self.slots_max = 0
        self.limit = limit  # as decided; 0: not yet, `slots_max` holds
        self.level = limit  # the limit without short dips
        self.epoch = 1  # number of the decision
        self.decider: ProcessId | None = None  # the member whose decision is in force
        self.is_out = False  # by the votes
        self.uses: dict[tuple[ProcessId, int], SlotUse] = {}  # by owner and number of the request
        self.always = 0  # of them by always-available classes
        self.running: dict[int, int] = {}  # of them by class
        self.open_ms = 0  # when nodes last could start requests at once
        self.kept = 0  # slots that they may have taken since then, more than one each
        self.reserved: dict[ProcessId, tuple[int, int]] = {}  # members that left: slots, and until when

    @property
    def bound(self) -> int:
        """The limit, found or by hand."""
        return min(self.limit, self.slots_max) if self.limit else self.slots_max

    @property
    def slots(self) -> int:
        """Slots that may be in use."""
        most = self.bound
        return max(0, most - sum(slots for slots, _ in self.reserved.values())) if self.reserved else most

    @property
    def free(self) -> int:
        """May be negative: nodes start requests at once and report them later."""
        return self.slots - len(self.uses)

    @property
    def has_room(self) -> bool:
        return self.free > self.kept

    has_free_channel = has_room  # nothing is granted ahead

    @property
    def has_room_for_always(self) -> bool:
        """Always-available requests may exceed the limit, but are no more than it allows."""
        return self.always < self.bound

    def take(self, owner: ProcessId, number: int, use: SlotUse) -> None:
        if (owner, number) in self.uses:
            self.give_back(owner, number)
        self.uses[owner, number] = use
        self.always += use.is_always
        self.running[use.number] = self.running.get(use.number, 0) + 1

    def give_back(self, owner: ProcessId, number: int) -> SlotUse | None:
        use = self.uses.pop((owner, number), None)
        if use is not None:
            self.always -= use.is_always
            self.running[use.number] -= 1
        return use

    def renumber(self, numbers: list[int]) -> None:
        """The policy has changed, and with it the numbers of the classes."""
        uses, self.uses = self.uses, {}
        self.always, self.running = 0, {}
        for key, use in uses.items():
            self.take(*key, use._replace(number=numbers[use.number]))

    def is_open(self, members: int, now_ms: int) -> None:
        """Nodes may start requests at once, each with its part of the free slots, before the others know of it."""
        self.open_ms = now_ms
        self.kept = members * max(0, self.free // members - 1) if members > 1 else 0

    def part_of(self, members: int) -> int:
        """The slots of one of this many members."""
        return self.bound // max(1, members)


def server_id(node: str, name: str, *, is_shared: bool) -> str:
    return name if is_shared else f"{name}@{node}"


def pools_of(node: str, table: Iterable[UpstreamReport]) -> list[PoolKey]:
    """The pools of a node: servers with equal hosts and paths."""
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], set[str]] = {}
    for one in table:
        found.setdefault((one.hosts, one.paths), set()).add(server_id(node, one.name, is_shared=one.is_shared))
    return [tuple(sorted(ids)) for ids in found.values()]


def reports_by_id(pipes: Mapping[ProcessId, Pipe]) -> dict[str, list[UpstreamReport]]:
    """The nodes' reports on each server, in a fixed order."""
    found: dict[str, list[UpstreamReport]] = {}
    for pid in sorted(pipes):
        for one in pipes[pid].upstreams:
            found.setdefault(server_id(pid.name, one.name, is_shared=one.is_shared), []).append(one)
    return dict(sorted(found.items()))


def is_out(reports: Iterable[UpstreamReport]) -> bool:
    """More nodes vote OUT than HEALTHY."""
    votes = [one.vote for one in reports]
    return votes.count(Vote.OUT) > votes.count(Vote.HEALTHY)
