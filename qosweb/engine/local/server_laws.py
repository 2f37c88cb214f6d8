"""Runs the control laws of the servers whose limits this node decides: ordered samples in, decisions out.

One member decides for each server (`replicated.server_table`). Its law begins with the first samples and the level in
force, and numbers its decisions after the one that it finds. While slots are reserved for members that left, samples
tell nothing about the limit: fewer requests are in service, and those members may use the server. The level then stays.
Outside the primary view a node keeps its part of a shared server and decides nothing about it.
Neighbours: `engine` passes samples and time.  Below: `qosweb.engine.laws.knee`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.laws.knee import Knee

if TYPE_CHECKING:
    from qosweb.engine.laws.service_samples import SampleBatch
    from qosweb.engine.replicated.servers import Server
    from qosweb.engine.replicated.state_machine import QosStateMachine

TICK_MS = 10
DELAY_S = 0.005  # until all nodes know a decision


class ServerLaw:
    """The law of one server."""

    __slots__ = ("base", "knee", "was_out")

    @property
    def last_epoch(self) -> int:
        """Of its latest decision."""
        return self.base + self.knee.epoch

    def __init__(self, server: Server, *, is_shared: bool) -> None:
        self.base = server.epoch  # decisions before those of this law
        self.knee = Knee(server.slots_max, DELAY_S if is_shared else 0.0, server.level)
        self.was_out = False


class ServerLaws:
    """All laws of one node."""

    def __init__(self) -> None:
        self._laws: dict[str, ServerLaw] = {}
        self._ticked_ms = 0

    def absorb(self, machine: QosStateMachine, name: str, rows: SampleBatch) -> None:
        """Samples of a server have been ordered."""
        server = machine.servers.servers[name]
        law = self._laws.get(name)
        if law is None:
            law = self._laws[name] = ServerLaw(server, is_shared=len(machine.pipes) > 1)
        if server.reserved:
            return
        for row in rows:
            if row.epoch:
                row.epoch = max(-1, row.epoch - law.base)
        law.knee.absorb(rows)

    def tick(self, machine: QosStateMachine, now_ms: int, *, in_minority: bool) -> list[tuple[str, int, int, int]]:
        """The decisions that are due."""
        if not self._laws or now_ms < self._ticked_ms + TICK_MS:
            return []
        self._ticked_ms = now_ms
        decided: list[tuple[str, int, int, int]] = []
        for name, law in list(self._laws.items()):
            server = machine.servers.servers.get(name)
            if server is None or machine.servers.decider_of(name) != machine.me or server.epoch > law.last_epoch:
                del self._laws[name]
                continue
            if in_minority and "@" not in name:
                continue
            if server.reserved:
                del self._laws[name]
                if server.limit < server.level:  # a dip
                    decided.append((name, server.level, server.level, law.last_epoch + 1))
                continue
            if law.was_out and not server.is_out:
                law.knee.restart()
            law.was_out = server.is_out
            law.knee.limit_max = max(1, server.slots_max)
            decision = law.knee.tick(now_ms / 1000, len(server.uses))
            if decision is not None:
                decided.append((name, decision.limit, decision.level, law.base + decision.epoch))
        return decided

    def next_ms(self, machine: QosStateMachine) -> int | None:
        """When to call `tick` again."""
        servers = machine.servers.servers
        in_use = any(name in servers and servers[name].uses for name in self._laws)
        return self._ticked_ms + TICK_MS if in_use else None

    def machine_changed(self) -> None:
        """Another state machine decides: its servers have other limits."""
        self._laws.clear()

    def policy_changed(self) -> None:
        for law in self._laws.values():
            law.knee.forget_classes()
