"""FIFO-SRB: specification of semantically reliable broadcast of reports, within views.

Paper: Pereira, Rodrigues, Oliveira: Semantically Reliable Broadcast, section 2.1; lemma 1 of section 2.4. Report m is
obsoleted by m' (m < m' below) if both are of one origin and item and m' was broadcast later.

Integrity, FIFO order, `safe` and the purge rule are checked at every step. Validity, agreement and FIFO completeness
are liveness: they are checked at the end of a run, when all processes that are up share one view and are at rest.

Departs: the paper has a fixed set of processes, of which at most f crash. Here processes come, go and change views, and
f = floor((n - 1) / 2) follows the view. These liveness properties remain:
- Validity and agreement between members of the last view: every member has the current value of every item of every
  member, however long each of them is there. So nothing current of members that move together is lost, and a newcomer
  gets everything.
- Agreement on an origin that is gone: a process that took reports from the origin in a view owes them to the members of
  that view that move together with it from then on: they deliver what it delivered, or a successor. Members that get
  reports that way owe them to the same members. Reports that none of the members that move on took may be lost.
- FIFO completeness for an origin that is gone: holds at p unless p was separated from more than f members of a view
  that it shared with the origin. Then all processes that held the successor of a purged report may be gone.
- No process delivers reports of an origin that it never met, in its current life: the member that forwarded them may
  have lost the successor of a purged report, and f of the views of p says nothing about it.
- A process may forget an origin that is gone (`ReportForget`). If the origin comes back it is new to that process.
A crash ends a life: what a recovered process delivers is counted from nothing.

In no paper: `report_deliver_pre` has a clause that no number is skipped before a report that makes it obsolete was
broadcast. FIFO completeness would allow to skip it and hope for a successor.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from cluster.names import ProcessId, ViewId
from cluster.reports.messages import Origin
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.actions import (
        Crashed,
        GcsView,
        Recovered,
        ReportBroadcast,
        ReportDeliver,
        ReportEnqueue,
        ReportForget,
        ReportPurge,
        ReportSafe,
        StartChange,
    )
    from cluster.names import View


class BroadcastHistory:
    """B_i of one origin: the reports that it broadcast."""

    __slots__ = ("items", "latest", "safe")

    def __init__(self) -> None:
        self.items: list[tuple[str, bytes]] = []  # report number n is at n - 1
        self.latest: dict[str, int] = {}  # number of the latest report of each item
        self.safe = 0  # all numbers up to this one were declared safe


class DeliveryHistory:
    """D_i of one process for one origin."""

    __slots__ = ("latest", "number")

    def __init__(self) -> None:
        self.number = 0  # of the last delivery
        self.latest: dict[str, int] = {}  # number of the last delivery of each item


class HoldingEra(msgspec.Struct):
    """The reports of each origin that a process holds, between two crashes or losses of memory."""

    life: int
    numbers: dict[Origin, int]


class SharedView(msgspec.Struct):
    """A view that a process was in, and which of its members it was never separated from since."""

    members: frozenset[ProcessId]
    with_us: frozenset[ProcessId]
    origins: frozenset[Origin]  # the members in the lives in which they were there

    def has_met(self, origin: Origin) -> bool:
        """Whether the origin was a member, in its life or a later one: members that do not hear from it cannot tell."""
        return any(origin.process == member.process and origin.life <= member.life for member in self.origins)

    @property
    def is_lost(self) -> bool:
        return len(self.members) - len(self.with_us) > tolerated(len(self.members))


def tolerated(count: int) -> int:
    """f: how many crashes a view of this many members tolerates."""
    return (count - 1) // 2


class ReportsSpec(Spec):
    NAME = "FIFO_SRB"

    def __init__(self) -> None:
        super().__init__()
        self.broadcast: dict[Origin, BroadcastHistory] = {}
        self.delivered: dict[ProcessId, dict[Origin, DeliveryHistory]] = defaultdict(dict)
        self.lives: dict[ProcessId, int] = defaultdict(int)  # number of lives that ended
        self.held: dict[ProcessId, list[HoldingEra]] = defaultdict(list)  # the last one is current
        self.started: dict[tuple[ProcessId, int], int] = {}  # in which life a process got a start_change
        self.view: dict[ProcessId, View] = {}
        self.moved: dict[ProcessId, frozenset[ProcessId]] = defaultdict(frozenset)  # T of the view, and p
        self.installed: dict[ViewId, dict[ProcessId, int]] = defaultdict(dict)  # in which era it entered the view
        self.shared: dict[ProcessId, list[SharedView]] = defaultdict(list)
        self.owed: dict[ProcessId, dict[Origin, set[ProcessId]]] = defaultdict(dict)  # to whom p owes what it has
        self.forgotten: set[tuple[ProcessId, Origin]] = set()

    # input start_change_p(cid, set) of the membership
    def start_change_eff(self, act: StartChange, at: ProcessId) -> None:
        self.started[at, act.cid] = self.lives[at]

    # input view_p(v, T) of the end-point
    def gcs_view_eff(self, act: GcsView, at: ProcessId) -> None:
        moved = self.moved[at] = frozenset(act.transitional) | {at}
        self.view[at] = act.view
        entered = self.installed[act.view.id]
        for q in act.view.members:  # a member that never enters the view counts as it was when the first one did
            entered.setdefault(q, self._era_in(act.view, q))
        entered[at] = len(self.held[at]) - 1
        for owed in self.owed[at].values():
            owed &= moved
        for shared in self.shared[at]:
            shared.with_us &= moved
        members = frozenset(act.view.members)
        origins = frozenset(Origin(q, self.held[q][entered[q]].life + 1) for q in members)
        self.shared[at].append(SharedView(members, members, origins))

    # input broadcast_i(m), TP1
    def report_broadcast_pre(self, act: ReportBroadcast, at: ProcessId) -> None:
        self.require(act.origin.process == at, "broadcast: the origin is the process itself")
        history = self.broadcast.setdefault(act.origin, BroadcastHistory())
        self.require(act.number == len(history.items) + 1, "broadcast: next(m, O_ii)", len(history.items))

    def report_broadcast_eff(self, act: ReportBroadcast, _at: ProcessId) -> None:
        history = self.broadcast[act.origin]
        history.items.append((act.item, act.value))
        if act.item in history.latest:
            self.branch("broadcast: makes a report obsolete")
        history.latest[act.item] = act.number

    # internal enqueue_i(m, o), TP2
    def report_enqueue_pre(self, act: ReportEnqueue, at: ProcessId) -> None:
        history = self.broadcast.get(act.origin)
        self.require(
            history is not None and act.number <= len(history.items), "enqueue: everything was broadcast before"
        )
        held = self._holds(at).get(act.origin, 0)
        self.require(act.number > held, "enqueue: m not in Q_i", held)
        self.require(act.via in self._members(at), "enqueue: sent by a member of the view", act.via)

    def report_enqueue_eff(self, act: ReportEnqueue, at: ProcessId) -> None:
        self._holds(at)[act.origin] = act.number
        members = set(self._members(at)) - {at, act.origin.process}
        if act.via == act.origin.process:
            self.owed[at][act.origin] = members
        else:
            self.branch("enqueue: forwarded")
            heirs = {act.via, *self.owed[act.via].get(act.origin, ())} & members
            self.owed[at][act.origin] = self.owed[at].get(act.origin, set()) | heirs

    def _members(self, at: ProcessId) -> tuple[ProcessId, ...]:
        return self.view[at].members if at in self.view else (at,)

    # safe_i(m): received by more than f processes of the view, of which f may have crashed meanwhile
    def report_safe_pre(self, act: ReportSafe, at: ProcessId) -> None:
        members = self._members(at)
        holders = [
            q
            for q in members
            if any(era.numbers.get(act.origin, 0) >= act.number for era in self._eras_in_view_of(at, q))
        ]
        self.require(
            len(holders) > tolerated(len(members)),
            "safe: more than f members of the view hold the report",
            members,
            holders,
        )

    def report_safe_eff(self, act: ReportSafe, at: ProcessId) -> None:
        self.broadcast[act.origin].safe = max(act.number, self.broadcast[act.origin].safe)
        if len(self._members(at)) > 1:
            self.branch("safe: in a view of several members")

    def _holds(self, at: ProcessId) -> dict[Origin, int]:
        if not self.held[at]:
            self.held[at].append(HoldingEra(self.lives[at], {}))
        return self.held[at][-1].numbers

    def _era_in(self, view: View, q: ProcessId) -> int:
        """The last era of the life of q that takes part in the view. That life may have ended."""
        self._holds(q)
        eras = self.held[q]
        life = self.started.get((q, view.start_id(q)), eras[-1].life)
        return max((index for index, era in enumerate(eras) if era.life == life), default=len(eras) - 1)

    def _eras_in_view_of(self, at: ProcessId, q: ProcessId) -> list[HoldingEra]:
        """What q held in the life in which it was in the view of `at`, also if it has crashed or left it since."""
        self._holds(q)
        entered = self.installed[self.view[at].id] if at in self.view else {}
        first = entered.get(q, len(self.held[q]) - 1)
        return [era for era in self.held[q][first:] if era.life == self.held[q][first].life]

    # internal purge_r_i(m), TP5
    def report_purge_pre(self, act: ReportPurge, at: ProcessId) -> None:
        history = self.broadcast[act.origin]
        item, successor = history.items[act.number - 1][0], history.items[act.successor - 1][0]
        self.require(act.number < act.successor and item == successor, "purge: m < m'", item, successor)
        held = self._holds(at).get(act.origin, 0)
        self.require(act.successor <= held, "purge: m' is in the same buffer", held)
        self.require(act.successor <= history.safe, "purge: safe_i(m')", history.safe)

    # output deliver_i(m), TP3
    def report_deliver_pre(self, act: ReportDeliver, at: ProcessId) -> None:
        history = self.broadcast.get(act.origin)
        self.require(
            history is not None
            and act.number <= len(history.items)
            and history.items[act.number - 1] == (act.item, act.value),
            "integrity: m was broadcast before",
        )
        assert history is not None
        self.require(
            act.origin.process == at or any(shared.has_met(act.origin) for shared in self.shared[at]),
            "deliver: the process was in a view with the origin",
        )
        last = self.delivered[at].setdefault(act.origin, DeliveryHistory()).number
        self.require(act.number != last, "integrity: m is delivered once")
        self.require(act.number > last, "FIFO order: no later report was delivered before", last)
        for skipped in range(last + 1, act.number):
            item = history.items[skipped - 1][0]
            self.require(history.latest[item] > skipped, "no report is skipped without a successor", skipped, item)

    def report_deliver_eff(self, act: ReportDeliver, at: ProcessId) -> None:
        if act.origin.process not in self._members(at):
            self.branch("deliver: from an origin outside the view")
        delivery = self.delivered[at][act.origin]
        delivery.number = act.number
        delivery.latest[act.item] = act.number

    def report_forget_pre(self, act: ReportForget, at: ProcessId) -> None:
        self.require(
            act.origin.process not in self.moved[at] or self.lives[act.origin.process] >= act.origin.life,
            "forget: the origin did not move into the view with the process",
        )

    def report_forget_eff(self, act: ReportForget, at: ProcessId) -> None:
        self.forgotten.add((at, act.origin))
        self.delivered[at].pop(act.origin, None)
        self.owed[at].pop(act.origin, None)
        numbers = {origin: number for origin, number in self._holds(at).items() if origin != act.origin}
        self.held[at].append(HoldingEra(self.lives[at], numbers))

    def crashed_eff(self, _act: Crashed, at: ProcessId) -> None:
        self.lives[at] += 1
        self.held[at].append(HoldingEra(self.lives[at], {}))
        for state in (self.delivered, self.view, self.shared):
            state.pop(at, None)

    def recovered_eff(self, act: Recovered, at: ProcessId) -> None:
        self.lives[at] = act.boot - 1  # not the number of crashes: one that comes too early leaves no life on the disk
        self.held[at].append(HoldingEra(self.lives[at], {}))
        self.owed.pop(at, None)  # not when it crashes: what it forwarded may still arrive

    # ---- the end of a run

    def judge_end(self, running: dict[ProcessId, int]) -> None:
        """Checks the processes that are up, by the number of their current life. All are in one view, at rest."""
        for p in running:
            present = {origin for origin in self.broadcast if running.get(origin.process) == origin.life}
            self.invariant_present(p, present)
            for origin in self.delivered[p].keys() - present:
                self.invariant_agreement(p, origin, running)
            for origin in self.delivered[p].keys() - present:
                self.invariant_completeness(p, origin)

    def invariant_present(self, p: ProcessId, present: Iterable[Origin]) -> None:
        """Validity for p itself, agreement and completeness for the others; a newcomer is no exception."""
        for origin in present:
            delivery = self.delivered[p].get(origin, DeliveryHistory())
            for item, number in self.broadcast[origin].latest.items():
                got = delivery.latest.get(item, 0)
                if origin.process == p:
                    self.require(got == number, "validity: a broadcast report is delivered", p, item, number, got)
                else:
                    self.require(
                        got == number,
                        "agreement: every member delivers the current value of every member's item",
                        p,
                        origin,
                        item,
                        number,
                        got,
                    )

    def invariant_agreement(self, p: ProcessId, origin: Origin, running: Iterable[ProcessId]) -> None:
        for item, number in self.delivered[p][origin].latest.items():
            for q in self.owed[p].get(origin, set()).intersection(running):
                if (q, origin) in self.forgotten:
                    continue
                delivery = self.delivered[q].get(origin, DeliveryHistory())
                got = delivery.latest.get(item, 0)
                self.require(
                    got >= number,
                    "agreement: members that move together deliver what one of them delivered",
                    p,
                    q,
                    origin,
                    item,
                    number,
                    got,
                )

    def invariant_completeness(self, p: ProcessId, origin: Origin) -> None:
        met = [shared for shared in self.shared[p] if shared.has_met(origin)]
        if any(shared.is_lost for shared in met):
            self.branch("FIFO completeness: p was separated from more than f members")
            return
        delivery, history = self.delivered[p][origin], self.broadcast[origin]
        for number, (item, _) in enumerate(history.items[: delivery.number], 1):
            got = delivery.latest.get(item, 0)
            self.require(
                got >= number,
                "FIFO completeness: what was broadcast before is delivered or obsolete",
                p,
                origin,
                item,
                number,
                got,
            )
