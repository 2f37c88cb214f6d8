"""Simulated clients whose requests need a slot of an upstream server, and the servers' tables of the nodes.

A request starts at once, waits for a slot, is denied or expires; then it is in service for its real time, unless its
client hangs up or its server fails. `SlotJudge` sees each start and end, as the servers do.
Neighbours: clients, slot_judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from qosweb.engine.replicated.upstreams import UpstreamReport, Vote
from qosweb.engine.sim.clients import MOVES_MAX, Clients, EngineViolation, SimClient

if TYPE_CHECKING:
    from cluster.sim.world import World
    from qosweb.engine.local.requests import Request
    from qosweb.engine.local.slot_queue import SlotQueue
    from qosweb.engine.sim.clients import NodeTally
    from qosweb.engine.sim.host import Host
    from qosweb.engine.sim.plan import Arrival, EnginePlan, ServerChange, SlotArrival
    from qosweb.engine.sim.slot_judge import SlotJudge


class ServerTables:
    """The tables of upstream servers that the nodes report."""

    def __init__(self, plan: EnginePlan) -> None:
        self._tables = plan.tables
        self._slots = plan.slots
        self._changed: dict[tuple[str, str], tuple[int, Vote]] = {}  # by node and server

    def change(self, one: ServerChange) -> None:
        self._changed[one.node, one.server] = one.slots, one.vote

    def of(self, node: str) -> list[UpstreamReport]:
        found: list[UpstreamReport] = []
        for at, pool in enumerate(self._tables.get(node, ())):
            for name, is_shared in pool:
                slots, vote = self._changed.get((node, name), (self._slots[name], Vote.UNKNOWN))
                url = f"http://{name}.example"
                found.append(UpstreamReport(name, url, is_shared, 1, slots, (), (f"/{at}",), vote))
        return found


class SlotClients(Clients):
    """All clients of a run that need upstream servers."""

    def __init__(self, world: World, tallies: dict[Host, NodeTally], judge: SlotJudge) -> None:
        super().__init__(world, world.chance.fork("slot clients"))
        self.tallies = tallies
        self._judge = judge

    def _start_at_once(self, host: Host, number: int, arrival: Arrival) -> Request | None:
        queue = self._queue(host, arrival)
        queue.now_ms = host.now_ms
        return queue.start_at_once(number)

    def _estimate(self, host: Host, number: int, arrival: Arrival) -> int:
        return self._queue(host, arrival).pool.mean_us(number)

    def _queue(self, host: Host, arrival: Arrival) -> SlotQueue:
        return host.engine.slot_queue(cast("SlotArrival", arrival).pool)

    def _start(self, client: SimClient, host: Host, rate_bps: int) -> None:  # noqa: ARG002
        client.started += 1
        if client.started > 1:
            raise EngineViolation("one start", f"{client} started again, at {host.node.pid}")
        assert client.request is not None
        client.at = host
        client.started_at = self.world.events.now
        self.tally(host).started += 1
        self.world.sometimes["starts at a server"] += 1
        self._judge.started(client, host)
        self.world.events.after(client.arrival.real_cost / 1e6, self._finish, client, MOVES_MAX)

    def _served(self, client: SimClient, host: Host, cost: int, *, is_left: bool = False) -> None:
        assert client.request is not None
        host.wake()
        arrival = cast("SlotArrival", client.arrival)
        if arrival.fails and not is_left:
            self.world.sometimes["a server fails a request"] += 1
        self._end(client, "served")
        queue = self._queue(host, arrival)
        queue.now_ms = host.now_ms
        queue.finish(client.request, max(1, cost), failed=arrival.fails, withdrawn=is_left)
        host.poke()

    def _end(self, client: SimClient, fate: str) -> None:
        super()._end(client, fate)
        self._judge.ended(client)
