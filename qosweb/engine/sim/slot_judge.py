"""Judges of slots: compare what runs at the upstream servers with what the nodes and the state machines believe.

At each start, with what really is in service at the server:
- a node outside the primary view exceeds its part of a shared server never, and its part follows from the last limit;
- the members of the primary view together exceed the limit only by what each may start before the others know of it;
- what they are granted is within the limit less the parts of the members that left, for as long as these are reserved;
- no request starts at a server that is out, unless all servers of the pool are.
After each step of a node: the requests in service from it are those that its state machine counts, corrected by what
the node knows it has not been told yet.
At the end: nothing is in use, waits or is reserved.
Neighbours: slot_clients.  Above: judge, run.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast

from qosweb.engine.replicated.servers import RESERVED_MS, is_out, reports_by_id
from qosweb.engine.sim.clients import EngineViolation, SimClient

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.names import ProcessId, View
    from cluster.sim.world import World
    from qosweb.engine.replicated.servers import Server
    from qosweb.engine.sim.host import Host

ROUND_S = 1.0  # a lower limit is known to all members that hear of each other


class SlotJudge:
    """Raises EngineViolation at the first violation; `looked` counts the checks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.looked = {
            "slots outside the primary view": 0,
            "slots in the primary view": 0,
            "slots of both sides": 0,
            "servers that are out": 0,
            "slots in service": 0,
            "reservations": 0,
        }
        self._in_service: dict[str, dict[SimClient, Host]] = {}  # by server
        self._always: set[SimClient] = set()
        self._view: View | None = None  # the last one in the order
        self._at: dict[Host, tuple[int, View | None, dict[str, int]]] = {}  # a node's last position, view and bounds
        self._members: dict[ProcessId, list[str]] = {}  # of that view: the shared servers that they reported
        self._left: dict[ProcessId, tuple[int, dict[str, int]]] = {}  # when a member left, and its parts by server
        self._limits: dict[str, list[tuple[float, int, int]]] = {}  # by server: when seen, bound, slots

    # ---- events at the servers

    def started(self, client: SimClient, host: Host) -> None:
        request = client.request
        assert request is not None
        machine = host.engine.machine
        name = request.server
        self._in_service.setdefault(name, {})[client] = host
        if machine.scheduler.bound.always[request.class_number]:
            self._always.add(client)
        self._judge_health(client, host)
        if client not in self._always:
            self._judge_limit(name, host, is_granted=client.decisions > 0)

    def ended(self, client: SimClient) -> None:
        if client.request is not None and client.request.server:
            self._in_service.get(client.request.server, {}).pop(client, None)
            self._always.discard(client)

    def in_service(self, name: str) -> int:
        """Requests in service at a server, without the always-available ones."""
        return self._count(name).total()

    def _count(self, name: str) -> Counter[Host]:
        """Requests in service at a server from each running node, without the always-available ones."""
        running = self._in_service.get(name, {})
        return Counter(host for one, host in running.items() if host.node.process is host and one not in self._always)

    # ---- at a start

    def _judge_health(self, client: SimClient, host: Host) -> None:
        assert client.request is not None
        machine, name = host.engine.machine, client.request.server
        reports = reports_by_id(machine.pipes)
        pool = host.engine.slot_queue(client.arrival.pool).key  # type: ignore[attr-defined]
        outs = [one for one in pool if one in reports and is_out(reports[one])]
        self.looked["servers that are out"] += bool(outs)
        if name in outs and any(one not in outs for one in pool if one in reports):
            raise EngineViolation("server is out", f"{client} started at {name}, though {pool} has others")

    def _judge_limit(self, name: str, host: Host, *, is_granted: bool) -> None:
        engine, count = host.engine, self._count(name)
        if engine.solo is not None:
            self._judge_part(name, host, count[host])
            return
        if not self._is_settled(host):
            return
        members = [one for one in self._hosts() if one.engine.solo is None]
        server = engine.replicated.servers.servers[name]
        slots = max(one[2] for one in self._seen(name, server))
        started = sum(count[one] for one in members)
        self.looked["slots in the primary view"] += 1
        size = len(engine.replicated.pipes)
        most = slots + size * max(1, slots // size)
        if started > most:
            raise EngineViolation(
                "limit", f"{started} requests are at {name}, which has {slots} slots for {size} nodes"
            )
        if is_granted:
            self._judge_reserved(name, host, server)

    def _judge_reserved(self, name: str, host: Host, server: Server) -> None:
        """A slot was granted: what is in use stays within the limit less the parts of the members that left."""
        time_ms = host.engine.replicated.time_ms
        parts = {
            pid: parts[name]
            for pid, (left_ms, parts) in self._left.items()
            if time_ms < left_ms + RESERVED_MS and name in parts
        }
        self.looked["slots of both sides"] += bool(parts)
        if len(server.uses) > max(server.bound - sum(parts.values()), 0):
            raise EngineViolation(
                "both sides",
                f"{len(server.uses)} slots of {name} are in use at a grant for {host.node.pid}, of {server.bound} "
                f"without the parts {parts} of members that left",
            )

    def _judge_part(self, name: str, host: Host, started: int) -> None:
        self.looked["slots outside the primary view"] += 1
        solo = host.engine.solo
        assert solo is not None
        bound = solo.servers.servers[name].bound
        part = _part(host, name) if "@" not in name else bound
        if bound > part:
            raise EngineViolation("part", f"{host.node.pid} has {bound} slots of {name} alone, but its part is {part}")
        if started > bound:
            raise EngineViolation("part", f"{host.node.pid} has {started} requests at {name} alone, of {bound} slots")

    def _hosts(self) -> list[Host]:
        return [cast("Host", node.process) for node in self.world.running()]

    def _is_settled(self, host: Host) -> bool:
        """The host and all other members of its view know of the view, and each other's requests."""
        view = host.engine.replicated.view
        for one in self._hosts():
            is_member = view is not None and one.engine.me in view.members
            if is_member != (one.engine.solo is None):
                return False
            if is_member and (one.engine.replicated.view != view or one.engine.pipe_queue.is_void):
                return False
        return True

    def _seen(self, name: str, server: Server) -> list[tuple[float, int, int]]:
        """The bounds and slots that any member knew within ROUND_S."""
        now = self.world.events.now
        seen = self._limits[name] = [one for one in self._limits.get(name, ()) if one[0] > now - ROUND_S]
        return [*seen, (now, server.bound, server.slots)]

    # ---- after each entry

    def applied(self, host: Host, position: int) -> None:
        """Follow the views, in the order of their entries, and the limits. A snapshot may skip views."""
        bounds = {name: server.bound for name, server in host.engine.replicated.servers.servers.items()}
        before, self._at[host] = self._at.get(host, (0, None, bounds)), (position, host.engine.replicated.view, bounds)
        machine = host.engine.replicated
        view = machine.view
        if view is None:
            return
        if self._view is None or view.id > self._view.id:
            is_next = before[:2] == (position - 1, self._view)
            self._follow(view, machine.time_ms, before[2], self._members if is_next else {})
        if view.id == self._view.id:  # type: ignore[union-attr]
            self._members = {
                pid: [one.name for one in pipe.upstreams if one.is_shared] if pipe.capacity_bps else []
                for pid, pipe in machine.pipes.items()
            }
        for name, server in machine.servers.servers.items() if host.engine.solo is None else ():
            seen = self._limits.setdefault(name, [])
            row = (self.world.events.now, server.bound, server.slots)
            if not seen or seen[-1] != row:
                seen.append(row)

    def _follow(self, view: View, time_ms: int, bounds: dict[str, int], members: dict[ProcessId, list[str]]) -> None:
        """The parts of the members that left, by the limits just before."""
        self._left = {pid: row for pid, row in self._left.items() if pid not in view.members}
        for pid, names in members.items():
            if pid not in view.members:
                self._left[pid] = time_ms, {name: bounds.get(name, 0) // len(members) for name in names}
        self._view = view

    # ---- after each step

    def after(self, host: Host) -> None:
        engine = host.engine
        if engine.pipe_queue.is_void:
            return
        for queue in engine.slot_queues.values():
            believed = queue.in_service()
            for name in queue.key:
                real = sum(one is host for one in self._in_service.get(name, {}).values())
                self.looked["slots in service"] += 1
                if believed[name] != real:
                    raise EngineViolation(
                        "slots in service",
                        f"{host.node.pid} counts {believed[name]} requests at {name}, but sent {real}",
                    )

    # ---- at the end

    def reserved(self, hosts: Iterable[Host]) -> list[str]:
        """Reservations that have not ended."""
        self.looked["reservations"] += 1
        return [
            f"{host.node.pid} reserves slots of {name} for {', '.join(map(str, server.reserved))}"
            for host in hosts
            for name, server in host.engine.replicated.servers.servers.items()
            if server.reserved
        ]


def _part(host: Host, name: str) -> int:
    """The slots of a shared server for a node alone, from what it knows of the cluster."""
    replicated = host.engine.replicated
    server = replicated.servers.servers.get(name)
    if server is None or not server.bound:
        return 1
    return max(1, server.bound // max(1, len(replicated.pipes)))


def slots_left(host: Host) -> list[str]:
    """Slots that are still held, at the node or in the state machine that decides for it."""
    table = host.engine.machine.servers
    found = [f"{len(server.uses)} slots of {name} are in use" for name, server in table.servers.items() if server.uses]
    found += [f"{len(pool.waiting)} requests wait for {key}" for key, pool in table.pools.items() if pool.waiting]
    for queue in host.engine.slot_queues.values():
        if queue.waiting or not queue.outbox.is_empty:
            found.append(f"{queue.waiting} requests wait for {queue.key}, or events are not sent")
        found += [
            f"{count} requests count as in service at {name}" for name, count in queue.in_service().items() if count
        ]
    return found
