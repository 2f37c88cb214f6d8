"""Invariants of the data service on the joint state.

Paper: Khazan, Fekete and Lynch, DISC 1998, fig. 8 (I 1 to I 5). Its variables, in those of this stack: `updates` is the
log of the total order, `safe_to_update` its next_confirm, `last_update` its next_report; `map` and `pending` of updates
are the submissions without an outcome, those of queries are in `cluster.data.replica`.
Departs: I 2 compares the states of the machines, with those of all processes that were ever at the same index. I 3 and
I 4 are about the current life of the process of a client: its clients are gone with it. I 5 (e) counts all processes.
In no paper: a member of a view that is not primary can execute every query that is assigned to it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.entries import APPLICATION
from cluster.messages import Answers, QueryAnswer
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import Crashed, LinkDeliver, LinkSend, Resolved, Submitted
    from cluster.data.replica import DataReplica
    from cluster.names import ProcessId
    from cluster.specs.invariants.joint import Joint
    from cluster.specs.services.data import DataSpec
    from cluster.total_order import TotalOrder


class DataInvariants(Spec):
    """Follows the trace after `service`, whose states it reads."""

    NAME = "VStoD"

    def __init__(self, service: DataSpec) -> None:
        super().__init__()
        self.service = service
        self.submitted: dict[ProcessId, dict[int, bytes]] = {}  # without an outcome, in this life, by ticket
        self.in_transit: dict[ProcessId, list[Answers]] = {}  # on in-transit_{p',p}, by p

    # ---- the trace

    def submitted_eff(self, act: Submitted, at: ProcessId) -> None:
        self.submitted.setdefault(at, {})[act.ticket] = act.body

    def resolved_eff(self, act: Resolved, at: ProcessId) -> None:
        self.submitted.get(at, {}).pop(act.ticket, None)

    def link_send_eff(self, act: LinkSend, _at: ProcessId) -> None:
        if isinstance(act.body, Answers):
            for p in act.to:
                self.in_transit.setdefault(p, []).append(act.body)

    def link_deliver_eff(self, act: LinkDeliver, at: ProcessId) -> None:
        if isinstance(act.body, Answers):
            self.in_transit[at] = [packet for packet in self.in_transit[at] if packet != act.body]

    def crashed_eff(self, _act: Crashed, at: ProcessId) -> None:
        for forgotten in (self.submitted, self.in_transit):
            forgotten.pop(at, None)

    # ---- the state

    def after(self, p: ProcessId, joint: Joint) -> None:
        process = joint[p]
        if process.data is None:
            return
        self.invariant_1(p, process.total_order)
        self.invariant_2(p, process.data)
        self.invariant_3_and_4(p, process.total_order)
        self.invariant_5(p, process.data)
        self.invariant_able(p, process.data)

    def invariant_1(self, p: ProcessId, state: TotalOrder) -> None:
        self.require(
            state.next_report <= state.next_confirm <= state.length,
            "I 1: last_update <= safe_to_update <= |updates|",
            p,
            state.next_report,
            state.next_confirm,
            state.length,
        )

    def invariant_2(self, p: ProcessId, state: DataReplica) -> None:
        index = state.last_update
        known = index < len(self.service.dbs)
        self.require(known, "I 2: no process is ahead of dbs", p, index)
        here, there = state.machine.query(b"I 2"), self.service.answer_at(b"I 2", index)
        self.require(here == there, "I 2: equal last_update, equal state", p, index, here, there)

    def invariant_3_and_4(self, p: ProcessId, state: TotalOrder) -> None:
        """For the updates that p itself knows to be ordered, and has not executed, of clients that wait at p."""
        requests = {each.body for each in self.service.map.values() if each.is_update and each.at == p}
        if not requests:
            return
        waiting = set(self.submitted.get(p, {}).values())
        found: set[bytes] = set()
        for label, entry in state.log.since(max(state.next_report, state.base)):
            body = entry.body
            if label.origin == p and entry.kind == APPLICATION and body in requests:
                self.require(body in waiting, "I 3: an update that its process has not executed waits there", p, body)
                self.require(body not in found, "I 4: at most one unexecuted update of each client", p, body)
                found.add(body)

    def invariant_5(self, p: ProcessId, state: DataReplica) -> None:
        packets = self.in_transit.get(p)
        if not packets or state.view is None:
            return
        self.in_transit[p] = packets = [packet for packet in packets if packet.view_id >= state.view.id]
        for packet in packets:
            if packet.view_id == state.view.id:
                for answer in packet.answers:
                    self.invariant_5_of(p, state, answer)

    def invariant_5_of(self, p: ProcessId, state: DataReplica, packet: QueryAnswer) -> None:
        request = state.map.get(packet.client)
        self.require(request is not None, "I 5 (a): c is in the domain of map", p, packet)
        assert request is not None
        self.require(packet.client in state.pending, "I 5 (b): c is in pending", p, packet)
        self.require(packet.last_update < len(self.service.dbs), "I 5 (e): l <= max(last_update)", p, packet)
        expected = self.service.answer_at(request.body, packet.last_update)
        self.require(packet.body == expected, "I 5 (c): a = q(dbs[l])", p, packet, expected)
        self.require(packet.last_update >= request.last, "I 5 (d): l >= last(c)", p, packet, request.last)

    def invariant_able(self, p: ProcessId, state: DataReplica) -> None:
        x = state.expertise.get(p)
        if x is not None and not x.is_current and (state.queries or state.later):
            self.require(not state.later, "outside a primary view, no assigned query waits for updates", p)
