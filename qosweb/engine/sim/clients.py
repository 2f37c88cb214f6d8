"""Simulated clients, and the true outcome of each of their requests.

A client sends a request to one node. The request may start at once, wait, be redirected and arrive or not, or be
cancelled at any time. A running request holds its channel for as long as its bytes take at the channel's rate. The
judges compare the state machines with the outcomes recorded here.
Below: host, paced_sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cluster.names import ProcessId
from qosweb.engine.local.requests import Decision, Deny, GoTo, Phase, Request, Start
from qosweb.engine.sim.paced_sending import PacedSending

if TYPE_CHECKING:
    from cluster.sim.seeded_random import SeededRandom
    from cluster.sim.world import World
    from qosweb.engine.local.request_queue import RequestQueue
    from qosweb.engine.sim.host import Host
    from qosweb.engine.sim.plan import Arrival

PATIENCE = 1.0  # seconds that a decision may be late, by the node's own clock
RETRY = 0.005  # interval of retries at a paused node
SOON = 0.003  # seconds from a redirect to the arrival of a client that follows at once
MOVES_MAX = 4_000  # retries before clients give up a paused node


class EngineViolation(Exception):
    """A judge found a violation. `kind` is the name of the judge."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class SimClient:
    """One client with one request, and its outcome."""

    __slots__ = ("arrival", "at", "decisions", "fate", "host", "left_ms", "life_ms", "number", "request", "started",
                 "started_at", "ticket")  # fmt: skip

    def __init__(self, number: int, arrival: Arrival) -> None:
        self.number = number
        self.arrival = arrival
        self.host: Host | None = None  # the node process that received the request
        self.at: Host | None = None  # the node process that serves it
        self.request: Request | None = None
        self.decisions = 0
        self.started = 0
        self.started_at = 0.0
        self.life_ms: int | None = None
        self.left_ms: int | None = None  # rest of it when it was redirected
        self.ticket = ProcessId(""), 0  # owner and number, if redirected
        self.fate = ""  # how it ended

    @property
    def is_over(self) -> bool:
        return bool(self.fate)

    def __str__(self) -> str:
        where = self.host.node.pid if self.host is not None else self.arrival.node
        return f"request {self.number} of {where} for {self.arrival.name}, {self.arrival.cost} bytes"


class NodeTally:
    """True counts of one node process."""

    __slots__ = ("cancelled", "denied", "redirected", "started", "started_cost", "started_cost_most")

    def __init__(self) -> None:
        self.started = 0
        self.started_cost = 0
        self.started_cost_most = 0
        self.denied = 0
        self.cancelled = 0
        self.redirected = 0


class Clients:
    """All clients of a run."""

    def __init__(
        self, world: World, chance: SeededRandom, *, follow_at_once: bool = False, is_paced: bool = False
    ) -> None:
        """`is_paced`: responses share the pipe as the pacer divides it; otherwise each has the rate of its channel."""
        self.world = world
        self._follow_at_once = follow_at_once
        self._is_paced = is_paced
        self._pipes: dict[Host, PacedSending] = {}
        self.all: list[SimClient] = []
        self.tallies: dict[Host, NodeTally] = {}
        self.open: set[SimClient] = set()
        self._chance = chance

    def tally(self, host: Host) -> NodeTally:
        return self.tallies.setdefault(host, NodeTally())

    # ---- sending a request

    def arrive(self, arrival: Arrival) -> None:
        client = SimClient(len(self.all), arrival)
        self.all.append(client)
        self.open.add(client)
        self._ask(client, MOVES_MAX)

    def _ask(self, client: SimClient, tries: int) -> None:
        node = self.world.nodes[client.arrival.node]
        host = self._host(node.name)
        if host is None or (node.paused and not tries):
            self._end(client, "found nobody")
            return
        if node.paused:
            self.world.events.after(RETRY, self._ask, client, tries - 1)
            return
        client.host = host
        host.wake()
        self._submit(client, host)
        if client.arrival.hangs_up and not client.is_over:
            self.world.events.after(client.arrival.hangs_up, self._hang_up, client, MOVES_MAX)
        host.poke()

    def _submit(self, client: SimClient, host: Host) -> None:
        engine = host.engine
        arrival = client.arrival
        policy = engine.machine.policy
        number = policy.names.index(arrival.name) if arrival.name in policy.names else policy.default
        started = self._start_at_once(host, number, arrival)
        if started is not None:
            self.world.sometimes["starts at once"] += 1
            client.request = started
            self._start(client, host, started.rate_bps)
            return
        client.life_ms = engine.machine.scheduler.bound.terms[number].lifetime_ms
        asked_ms = host.now_ms
        answer = self._queue(host, arrival).submit(
            number,
            self._estimate(host, number, arrival),
            asked_ms,
            lambda decision: self._decided(client, host, asked_ms, decision),
        )
        if isinstance(answer, Deny):
            self.world.sometimes[f"denied: {answer.reason}"] += 1
            self.tally(host).denied += 1
            self._end(client, "denied")
        else:
            client.request = answer
            if client.life_ms is not None:
                self.world.events.after(client.life_ms / 1000 + PATIENCE, self._look, client, host, asked_ms)

    def _look(self, client: SimClient, host: Host, asked_ms: int) -> None:
        """Check that a decision came within the lifetime. A slow or paused node gets more time."""
        if client.is_over or client.decisions or host.node.process is not host or client.life_ms is None:
            return
        waited_ms = host.now_ms - asked_ms
        if waited_ms > client.life_ms + 1000 * PATIENCE:
            raise EngineViolation(
                "lifetime", f"{client} has waited {waited_ms} ms of {client.life_ms} by its node's own clock"
            )
        self.world.events.after(PATIENCE, self._look, client, host, asked_ms)

    def _decided(self, client: SimClient, host: Host, asked_ms: int, decision: Decision) -> None:
        client.decisions += 1
        if client.decisions > 1 or client.is_over:
            raise EngineViolation(
                "one decision", f"{client} got {decision} after it was already {client.fate or 'decided'}"
            )
        waited_ms = host.now_ms - asked_ms
        if client.life_ms is not None and not isinstance(decision, Deny) and waited_ms > client.life_ms:
            raise EngineViolation("lifetime", f"{client} waited {waited_ms} ms of {client.life_ms} and got {decision}")
        match decision:
            case Start():
                self.world.sometimes["starts after waiting"] += 1
                self._start(client, host, decision.rate_bps)
            case GoTo():
                self.tally(host).redirected += 1
                self._go(client, decision)
            case Deny():
                self.world.sometimes["expired"] += 1
                self.tally(host).cancelled += 1
                self._end(client, "expired")

    # ---- service

    def _start(self, client: SimClient, host: Host, rate_bps: int) -> None:
        client.started += 1
        if client.started > 1:
            raise EngineViolation("one start", f"{client} started again, at {host.node.pid}")
        client.at = host
        client.started_at = self.world.events.now
        tally = self.tally(host)
        tally.started += 1
        tally.started_cost_most += max(client.arrival.cost, client.arrival.real_cost)
        if self._is_paced:
            self._send(client, host, rate_bps)
        else:
            self.world.events.after(client.arrival.real_cost / rate_bps, self._finish, client, MOVES_MAX)

    def _send(self, client: SimClient, host: Host, rate_bps: int) -> None:
        pipe = self._pipes.get(host)
        if pipe is None:
            pipe = self._pipes[host] = PacedSending(self.world.events, host)
        policy, name = host.engine.machine.policy, client.arrival.name
        number = policy.names.index(name) if name in policy.names else policy.default
        pipe.send(name, number, client.arrival.real_cost, rate_bps, lambda: self._finish(client, MOVES_MAX))

    def _finish(self, client: SimClient, tries: int) -> None:
        host = client.at
        if client.is_over or host is None:
            return
        if host.node.process is not host:
            self._end(client, "lost with its node")
        elif host.node.paused and tries:
            self.world.events.after(RETRY, self._finish, client, tries - 1)
        else:
            self._served(client, host, client.arrival.real_cost)

    def _served(self, client: SimClient, host: Host, cost: int, *, is_left: bool = False) -> None:  # noqa: ARG002
        assert client.request is not None
        host.wake()
        self.tally(host).started_cost += cost
        self._end(client, "served")
        host.engine.pipe_queue.finish(client.request, cost)
        host.poke()

    def _hang_up(self, client: SimClient, tries: int) -> None:
        host = client.at or client.host
        if client.is_over or client.request is None or host is None or host.node.process is not host:
            return
        if host.node.paused and tries:
            self.world.events.after(RETRY, self._hang_up, client, tries - 1)
            return
        if client.request.phase is Phase.RUNNING:
            self.world.sometimes["hangs up while it is served"] += 1
            self._served(client, host, client.arrival.cost // 3, is_left=True)
        elif client.request.phase in (Phase.WAITING, Phase.READY):
            self.world.sometimes[f"hangs up while it is {client.request.phase.value}"] += 1
            host.wake()
            self._end(client, "hung up")
            if client.at is None and not client.request.is_visitor:
                self.tally(host).cancelled += 1
            self._queue(host, client.arrival).cancel(client.request)
            host.poke()

    # ---- redirects

    def _go(self, client: SimClient, decision: GoTo) -> None:
        assert client.request is not None
        assert client.host is not None
        client.ticket = client.host.engine.me, client.request.number
        client.left_ms = decision.left_ms
        client.request = client.host = None  # the redirecting node is done with it
        if self._follow_at_once:
            self.world.events.after(SOON, self._visit, client, decision.node.name, MOVES_MAX)
            return
        if self._chance.hits(0.15):
            self.world.sometimes["sent elsewhere, and never comes"] += 1
            self._end(client, "went away")
            return
        travel = 3.0 if self._chance.hits(0.05) else self._chance.between(0.001, 0.15)
        self.world.events.after(travel, self._visit, client, decision.node.name, MOVES_MAX)

    def _visit(self, client: SimClient, name: str, tries: int) -> None:
        node = self.world.nodes[name]
        host = self._host(name)
        if host is None or (node.paused and not tries):
            self._end(client, "sent to nobody")
            return
        if node.paused:
            self.world.events.after(RETRY, self._visit, client, name, tries - 1)
            return
        self.world.sometimes["sent elsewhere, and comes"] += 1
        host.wake()
        policy = host.engine.machine.policy
        arrival = client.arrival
        number = policy.names.index(arrival.name) if arrival.name in policy.names else policy.default
        client.at = host
        came_ms = host.now_ms

        def decided(decision: Decision) -> None:
            match decision:
                case Start():
                    if client.left_ms is not None and host.now_ms - came_ms > client.left_ms:
                        raise EngineViolation(
                            "lifetime", f"{client} waited too long at {name}, with {client.left_ms} ms left"
                        )
                    self._start(client, host, decision.rate_bps)
                case Deny():
                    self.world.sometimes["sent elsewhere, and waits there for too long"] += 1
                    self._end(client, "expired")
                case _:
                    raise EngineViolation("one decision", f"{client} came to {name} and got {decision}")

        client.request = host.engine.pipe_queue.visit(*client.ticket, number, arrival.cost, decided, client.left_ms)
        if client.request is None:  # a real node would queue it again; this client leaves
            self.world.sometimes["sent elsewhere, and comes too late"] += 1
            self._end(client, "came too late")
        host.poke()

    # ---- the queue that a request asks

    def _start_at_once(self, host: Host, number: int, arrival: Arrival) -> Request | None:
        return host.engine.pipe_queue.start_at_once(number, arrival.cost, may_exceed=self._is_paced)

    def _estimate(self, host: Host, number: int, arrival: Arrival) -> int:  # noqa: ARG002
        """The cost that the node expects."""
        return arrival.cost

    def _queue(self, host: Host, arrival: Arrival) -> RequestQueue:  # noqa: ARG002
        return host.engine.pipe_queue

    # ---- helpers

    def _host(self, name: str) -> Host | None:
        return cast("Host | None", self.world.nodes[name].process)

    def _end(self, client: SimClient, fate: str) -> None:
        client.fate = fate
        self.open.discard(client)

    def forget_the_dead(self) -> None:
        """End the clients whose node process is gone: their connections broke."""
        for client in sorted(self.open, key=lambda client: client.number):
            host = client.at or client.host
            if host is not None and host.node.process is not host:
                self._end(client, "lost with its node")
