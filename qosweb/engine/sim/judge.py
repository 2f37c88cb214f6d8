"""Judges of a simulated run: compare the nodes' state machines with each other and with the real events.

After every entry: the invariants of the state machine, and equal states at equal positions of the order. At the end,
when all requests are over: no request waits, no channel is held, and the nodes' counts equal the true counts.
Below: clients, hosts.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, cast

from cluster.sim.run import RunJudge
from qosweb.engine.replicated.invariants import violated_invariants
from qosweb.engine.sim.clients import Clients, EngineViolation, NodeTally
from qosweb.engine.sim.slot_judge import slots_left

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.names import ProcessId
    from cluster.sim.world import World
    from qosweb.engine.replicated.state_machine import QosStateMachine
    from qosweb.engine.sim.host import Host
    from qosweb.engine.sim.slot_judge import SlotJudge

COMPARE_EVERY = 5  # positions: a snapshot costs more than an entry


class EngineJudge(RunJudge):
    """Raises EngineViolation at the first violation; `looked` counts the checks."""

    def __init__(self) -> None:
        self.slots: SlotJudge | None = None
        self._states: dict[int, tuple[str, ProcessId]] = {}
        self.looked: dict[str, int] = {
            "invariants": 0,
            "equal states": 0,
            "nothing is held": 0,
            "votes": 0,
            "totals": 0,
        }

    def applied(self, host: Host, position: int) -> None:
        self.looked["invariants"] += 1
        self._check(host.engine.replicated, host)
        if host.engine.solo is not None:
            self._check(host.engine.solo, host)
        if self.slots is not None:
            self.slots.applied(host, position)
        if position % COMPARE_EVERY == 0:
            host.states.append((position, blake2b(host.engine.replicated.snapshot(), digest_size=16).hexdigest()))

    def after(self, world: World, process: ProcessId) -> None:
        """Compare states only after the disk writes that precede them: the process may crash before."""
        host = cast("Host | None", world.nodes[process.name].process)
        if host is not None and self.slots is not None:
            self.slots.after(host)
        if host is not None and host.states:
            for position, state in host.states:
                self._compare(host, position, state)
            host.states.clear()

    def _check(self, machine: QosStateMachine, host: Host) -> None:
        found = violated_invariants(machine)
        if found:
            raise EngineViolation("invariants", f"at {host.node.pid}: {found[0]}")

    def _compare(self, host: Host, position: int, state: str) -> None:
        before, who = self._states.setdefault(position, (state, host.node.pid))
        if who != host.node.pid:
            self.looked["equal states"] += 1
        if before != state:
            raise EngineViolation("equal states", f"{host.node.pid} and {who} differ after position {position}")

    # ---- at the end

    def held(self, hosts: Iterable[Host]) -> list[str]:
        """Channels that are still held, at the nodes or in the state machine that decides."""
        self.looked["nothing is held"] += 1
        found: list[str] = []
        for host in hosts:
            machine, me = host.engine.machine, host.node.pid
            found += [
                f"{me} still holds a channel for {key} at {at}"
                for at, pipe in machine.pipes.items()
                for key in pipe.channels
            ]
            found += [
                f"{me} still has {one.waiting} requests waiting in {one.name}" for one in machine.classes if one.waiting
            ]
            found += [f"{me}: {text}" for text in (*_left(host), *slots_left(host))]
        return found

    def equal(self, hosts: list[Host]) -> None:
        """Compare all replicas at the end of the order."""
        first = hosts[0].engine.snapshot()
        for host in hosts[1:]:
            self.looked["equal states"] += 1
            if host.engine.snapshot() != first:
                raise EngineViolation("equal states", f"{host.node.pid} and {hosts[0].node.pid} differ at the end")

    def votes(self, hosts: list[Host]) -> None:
        """The replicated state has the last vote of every node."""
        pipes = hosts[0].engine.replicated.pipes
        for host in hosts:
            self.looked["votes"] += 1
            if list(pipes[host.node.pid].upstreams) != host.engine.upstreams:
                raise EngineViolation("votes", f"the last vote of {host.node.pid} on an upstream server is missing")

    def totals(self, hosts: list[Host], clients: Clients) -> None:
        """A node that survived has reported all its counts, a crashed node some of them."""
        self.looked["totals"] += 1
        told = [one.totals for one in hosts[0].engine.replicated.classes]
        alive = [tally for host, tally in clients.tallies.items() if host in hosts]
        every = list(clients.tallies.values())
        for what in ("started", "denied", "cancelled", "redirected", "started_cost"):
            found = sum(getattr(one, what) for one in told)
            least, most = _sum(alive, what), _sum(every, "started_cost_most" if what == "started_cost" else what)
            if not least <= found <= most or (len(alive) == len(every) and found != least):
                raise EngineViolation(
                    "totals", f"{found} {what} are counted, but the true count is between {least} and {most}"
                )

    def clauses(self) -> dict[str, int]:
        return self.looked | ({} if self.slots is None else self.slots.looked)

    def verdict(self, _error: Exception) -> str | None:
        return _error.kind if isinstance(_error, EngineViolation) else None


def _left(host: Host) -> list[str]:
    pipe_queue = host.engine.pipe_queue
    left = {
        "bytes a second are in use": pipe_queue.used_bps,
        "requests are not over": len(pipe_queue.requests),
        "redirected clients are expected": len(pipe_queue.expected),
        "batches are unsent or in flight": not host.engine.outbox.is_empty or host.engine.in_flight is not None,
    }
    return [f"{count} {what}" for what, count in left.items() if count]


def _sum(tallies: Iterable[NodeTally], what: str) -> int:
    return sum(getattr(tally, what) for tally in tallies)
