"""All upstream servers and pools in the replicated state, and which node's law decides the limit of each server.

A pool is the set of servers of one route of a node. Nodes with equal tables of shared servers share the pool.
Decisions: one member decides the limit of a server. It is the last that decided, while it is a member and has the
server in its table, else the first of those that have it.
Neighbours: `state_machine` owns it.  Below: `server_pool`, `servers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.replicated.server_pool import ServerPool
from qosweb.engine.replicated.servers import KEPT_MS, RESERVED_MS, Server, is_out, pools_of, reports_by_id, server_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.names import ProcessId
    from qosweb.engine.replicated.compiled_policy import CompiledPolicy
    from qosweb.engine.replicated.servers import PoolKey, SlotUse
    from qosweb.engine.replicated.state_machine import QosStateMachine


class ServerTable:
    """Servers by their identity, pools by their servers."""

    def __init__(self, machine: QosStateMachine) -> None:
        self.servers: dict[str, Server] = {}
        self.pools: dict[PoolKey, ServerPool] = {}
        self.limits_at_first: dict[str, int] = {}  # of servers that are known from elsewhere
        self.limit_of_unknown = 0  # of any other shared server; 0: none
        self._machine = machine

    def update(self) -> None:
        """Make servers and pools equal to the nodes' tables. Servers and pools in use stay."""
        pipes = self._machine.pipes
        reports = reports_by_id(pipes)
        kept = {name for name, one in self.servers.items() if one.uses or one.reserved}
        self.servers = {
            name: self.servers.get(name) or Server(self._limit_at_first(name)) for name in sorted({*reports, *kept})
        }
        for name, found in reports.items():
            server = self.servers[name]
            server.slots_max = min(one.slots for one in found)
            server.is_out = is_out(found)
        keys = {key for pid, pipe in pipes.items() for key in pools_of(pid.name, pipe.upstreams)}
        keys |= {key for key, pool in self.pools.items() if pool.waiting}
        self.pools = {key: self.pools.get(key) or ServerPool(self._machine, key) for key in sorted(keys)}
        for key, pool in self.pools.items():
            pool.use({name: self.servers[name] for name in key if name in self.servers})

    def wakes_ms(self) -> Iterator[int | None]:
        for pool in self.pools.values():
            yield pool.scheduler.wake_ms
            if pool.waiting:
                yield from (server.open_ms + KEPT_MS for server in pool.servers.values() if server.kept)
        for server in self.servers.values():
            for _, until_ms in server.reserved.values():
                yield until_ms

    def schedule(self) -> None:
        """Start what may start. Pools that share a server take turns: the pool that has waited longest is first."""
        pools = list(self.pools.values())
        if sum(bool(pool.waiting) for pool in pools) > 1:
            pools.sort(key=lambda pool: pool.oldest_ms)
        for pool in pools:
            pool.schedule()
        contended = {name for pool in pools if pool.is_contended for name in pool.key}
        members, now_ms = len(self._machine.pipes), self._machine.time_ms
        for name, server in self.servers.items():
            if name not in contended:
                server.is_open(members, now_ms)

    @property
    def load_ppm(self) -> int:
        """The highest load of a pool."""
        return max((pool.load_ppm for pool in self.pools.values()), default=0)

    # ---- limits

    def take_parts(self, parts: dict[str, int]) -> None:
        """From the next entry on, use these limits for servers about which nothing is decided here."""
        self.limits_at_first = parts
        for name, server in self.servers.items():
            if server.decider is None:
                server.limit = server.level = self._limit_at_first(name)

    def _limit_at_first(self, name: str) -> int:
        return self.limits_at_first.get(name, 0 if "@" in name else self.limit_of_unknown)

    def parts(self) -> dict[str, int]:
        """The slots of each server for a member outside the primary view: its part of a shared one, at least one.

        Of its own servers those whose limit is known.
        """
        members = len(self._machine.pipes)
        return {
            name: max(1, min(one.level, one.slots_max) if "@" in name else one.part_of(members))
            for name, one in self.servers.items()
            if (one.level if "@" in name else one.bound)
        }

    def decide(self, origin: ProcessId, name: str, limit: int, level: int, epoch: int) -> None:
        """Take a decision on the limit of a server."""
        server = self.servers.get(name)
        if server is not None and epoch > server.epoch and limit > 0 and origin == self.decider_of(name):
            server.limit, server.level, server.epoch, server.decider = limit, level, epoch, origin

    def decider_of(self, name: str) -> ProcessId | None:
        """The member that decides the limit of a server."""
        if name not in self.servers:
            return None
        pipes, decider = self._machine.pipes, self.servers[name].decider
        having = [pid for pid in sorted(pipes) if any(name in key for key in pools_of(pid.name, pipes[pid].upstreams))]
        return decider if decider in having else having[0] if having else None

    # ---- members

    def forget(self, member: ProcessId) -> dict[int, SlotUse]:
        """Remove the waiting requests and the slots of a node. Returns the slots by request."""
        removed: dict[int, SlotUse] = {}
        for server in self.servers.values():
            for key in [key for key in server.uses if key[0] == member]:
                removed[key[1]] = server.uses[key]
                server.give_back(*key)
        for pool in self.pools.values():
            pool.forget(member)
        return removed

    def reserve(self, gone: list[ProcessId], members: int) -> None:
        """Reserve the parts of members that left without notice: they may be at work outside the primary view."""
        for pid in gone:
            pipe = self._machine.pipes[pid]
            if pipe.capacity_bps:  # a node that drains reports none
                until_ms = self._machine.time_ms + RESERVED_MS
                for one in pipe.upstreams:
                    server = self.servers[server_id(pid.name, one.name, is_shared=one.is_shared)]
                    part = server.part_of(members)
                    if one.is_shared and part:
                        server.reserved[pid] = part, until_ms

    def end_reservation(self, returned: ProcessId) -> None:
        """A member has returned, and has told what it has in service."""
        for server in self.servers.values():
            server.reserved.pop(returned, None)

    def end_reservations(self) -> None:
        """End the reservations that are over."""
        now_ms = self._machine.time_ms
        for server in self.servers.values():
            if server.kept and now_ms >= server.open_ms + KEPT_MS:
                server.kept = 0
            if server.reserved:
                server.reserved = {
                    pid: (slots, until_ms) for pid, (slots, until_ms) in server.reserved.items() if until_ms > now_ms
                }

    # ---- the policy

    def change_policy(self, policy: CompiledPolicy, numbers: list[int]) -> None:
        for server in self.servers.values():
            server.renumber(numbers)
        for pool in self.pools.values():
            pool.change_policy(policy.names, policy.default, numbers)
