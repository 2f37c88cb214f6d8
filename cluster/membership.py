"""Membership service: agrees with the other processes on the next view (its members and its id).

Paper: Khazan's thesis, fig. 4.2 (MBRSHP). `mbrshp_view` and `start_change` keep the thesis' names.
Departs: no servers. All processes know the same graph of who hears whom (rows, gossiped with every heartbeat), compute
the same cliques from it and propose them. The start-change id is the epoch, the same number for all members of a view.
Above: `start_change`, `membership_view`.  Below: proposals on connections; the failure detector.

A process proposes once per epoch: the clique that it is in. A proposal of a later epoch by a member of that clique
pulls the process up to that epoch. A view is formed when all members of a set proposed that set in the same epoch, so
two views of one epoch are disjoint or equal. In the usual case all members see a change alike and propose at once: one
message delay. Only the growth of a fully connected view is delayed a moment (`settle`), so that the connections of a
newcomer do not cause a view each. A proposal that does not succeed in time is repeated, less and less often. Processes
that still disagree then are left out for a while: this gives smaller views instead of none.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

from cluster.actions import MembershipView, StartChange
from cluster.durable import Epoch
from cluster.layer import Context, KnownPeers, Persist, Send
from cluster.messages import Proposal, Row
from cluster.names import NAME_LEN_MAX, ProcessId, View, initial_view, make_view
from cluster.reachability import clique_of, is_clique, within_hearing

if TYPE_CHECKING:
    from cluster.settings import Settings

EPOCH_STEP_MAX = 2**32  # a proposal further ahead than this is not plausible
PROCESSES_MAX = 256  # processes named in one proposal, and processes known in total
PATIENCE_MAX = 4  # how often the timeout of an attempt is doubled at most
ATTEMPTS_MAX = 3  # attempts at one view before the processes that disagree are left out


class ViewListener(Protocol):
    """Receives start changes and views."""

    current_view: View

    def start_change(self, cid: int, members: tuple[ProcessId, ...]) -> None: ...
    def membership_view(self, view: View) -> None: ...


class LinkControl(Protocol):
    """The part of the links that the membership uses."""

    connected_peers: tuple[ProcessId, ...]

    def live(self, members: tuple[ProcessId, ...]) -> None: ...


class PeerHearing(Protocol):
    """The part of the failure detector that the membership uses."""

    hears: tuple[ProcessId, ...]

    def shun(self, peer: ProcessId, until: float) -> None: ...
    def pardon(self, peer: ProcessId) -> None: ...


class Membership:
    __slots__ = ("_attempts", "_count", "_fresh_at", "_heartbeat_at", "_known", "_left", "_patience", "_retry_at",
                 "_rows_changed", "_rows_to_send", "_settle_at", "_target", "_unheard_since", "above", "boot",
                 "context", "detector", "epoch", "epoch_seen", "links", "mbrshp_view", "proposals", "rows", "settings",
                 "start_change", "under_way")  # fmt: skip

    links: LinkControl
    detector: PeerHearing
    above: ViewListener

    def __init__(self, context: Context, settings: Settings, epoch: int, boot: int) -> None:
        self.context = context
        self.settings = settings
        self.boot = boot  # which life of this process it is
        self.epoch = epoch  # the last epoch in which this process proposed, in any life
        self.epoch_seen = epoch  # the greatest epoch seen in any message
        self.mbrshp_view = initial_view(context.me)
        self.start_change: tuple[int, tuple[ProcessId, ...]] = (0, ())  # the last own proposal in this life
        self.under_way = False  # the last own proposal has not led to a view yet
        self.proposals: dict[ProcessId, tuple[int, tuple[ProcessId, ...]]] = {}  # the last of each process, with own
        self.rows: dict[ProcessId, Row] = {}
        self._count = 0  # version of the own row
        self._rows_changed = True
        self._rows_to_send: tuple[Row, ...] = ()
        self._target: tuple[ProcessId, ...] = (context.me,)
        self._known: set[ProcessId] = {context.me}
        self._unheard_since: dict[ProcessId, float] = {}
        self._attempts = 0  # failed attempts at a view of these members
        self._patience = 0  # how often the timeout of an attempt was doubled: learned from the network
        self._left = False
        self._heartbeat_at = self._retry_at = self._fresh_at = self._settle_at = inf

    def start(self) -> None:
        self._heartbeat_at = self.context.now
        # Each life needs a view, even if the process is alone. The short delay lets other processes be found first.
        self._fresh_at = self.context.now + self.settings.retry
        self._new_row()

    # ---- inputs

    def hears_changed(self) -> None:
        if self._left:
            return
        self._new_row()
        if not self._propose_if_due():
            self._send_heartbeat()

    def restarted(self, peer: ProcessId) -> None:
        """The peer lost its running state: a view with it has to be formed again."""
        self.proposals.pop(peer, None)
        self.detector.pardon(peer)
        if not self._left:
            self._propose_if_due(force=peer in self._present_members())

    def received(self, peer: ProcessId, proposal: Proposal) -> None:
        if self._left or not _is_plausible(proposal, self.epoch_seen):
            return
        if proposal.leaving:
            self.proposals.pop(peer, None)
            self.rows.pop(peer, None)
            self._rows_changed = True
            self.detector.shun(peer, inf)
            self._propose_if_due()
            return
        self._learn(proposal)
        self.epoch_seen = max(self.epoch_seen, proposal.epoch)
        self.proposals[peer] = (proposal.epoch, proposal.members)
        if not self._propose_if_due(force=proposal.epoch > self.epoch and peer in self._clique()):
            self._form_view()

    def leave(self) -> None:
        if self._left:
            return
        self._left = True
        self._heartbeat_at = self._retry_at = self._fresh_at = self._settle_at = inf
        self._send(Proposal(self.epoch, (), (), True))

    def tick(self) -> None:
        now = self.context.now
        if now >= self._fresh_at:
            self._propose()
        if now >= self._settle_at:
            self._propose_if_due()
        if now >= self._retry_at:
            self._retry_proposal()
        if now >= self._heartbeat_at:
            self._forget()
            self._send_heartbeat()

    def next_deadline(self) -> float:
        return min(self._heartbeat_at, self._retry_at, self._fresh_at, self._settle_at)

    # ---- who hears whom

    def _new_row(self) -> None:
        self._count += 1
        me = self.context.me
        self.rows[me] = Row(me, (self.boot, self._count), self.detector.hears)
        self._rows_changed = True

    def _learn(self, proposal: Proposal) -> None:
        me, met = self.context.me, []
        for row in proposal.rows:
            mine = self.rows.get(row.process)
            if row.process == me:
                if mine is not None and row.version > mine.version:  # from an earlier life
                    self._count = row.version[1] + (row.version[0] > self.boot)
                    self.boot = max(self.boot, row.version[0])
                    self._new_row()
                continue
            if mine is None and len(self.rows) >= PROCESSES_MAX:
                continue
            if mine is None or row.version > mine.version:
                self.rows[row.process] = row
                self._rows_changed = True
                met += [process for process in (row.process, *row.hears) if process not in self._known]
        new = sorted(set(met))[: PROCESSES_MAX - len(self._known)]
        if new:
            self._known.update(new)
            self.context.outbox.append(KnownPeers(tuple(new)))

    def _clique(self) -> tuple[ProcessId, ...]:
        if self._rows_changed:
            self._rows_changed = False
            me = self.context.me
            self._target = clique_of(me, self.rows)
            self._rows_to_send = tuple(self.rows[p] for p in within_hearing(me, self.rows) if p in self.rows)
        return self._target

    def _forget(self) -> None:
        """Frees the state of processes that no member hears any more."""
        heard, now = set(within_hearing(self.context.me, self.rows)), self.context.now
        for process in list(self.rows):
            if process in heard:
                self._unheard_since.pop(process, None)
            elif now - self._unheard_since.setdefault(process, now) > 10 * self.settings.suspect_max:
                del self.rows[process], self._unheard_since[process]
                self.proposals.pop(process, None)

    # ---- proposing

    def _present_members(self) -> tuple[ProcessId, ...]:
        return self.start_change[1] if self.under_way else self.mbrshp_view.members

    def _propose_if_due(self, force: bool = False) -> bool:
        """Makes a proposal if one is due. `force`: also for the members of the present view, in a new epoch."""
        target, present = self._clique(), self._present_members()
        if not force and target == present:
            self._settle_at = inf
        elif force or not is_clique(present, self.rows) or self.context.now >= self._settle_at:
            self._propose()
            return True
        elif self._settle_at == inf:
            self._settle_at = self.context.now + self.settings.settle
        return False

    def _propose(self) -> None:
        context, members = self.context, self._clique()
        if members != self.start_change[1]:
            self._attempts = 0
        self.epoch = self.epoch_seen if self.epoch_seen > self.epoch else self.epoch + 1
        self.epoch_seen = self.epoch
        self.start_change = self.proposals[context.me] = (self.epoch, members)
        self.under_way = True
        self._fresh_at = self._settle_at = inf
        self._retry_at = context.now + self.settings.retry * 2**self._patience * (1 + context.chance.random())
        context.outbox.append(Persist(Epoch(self.epoch)))
        self._send_heartbeat()
        if context.trace is not None:
            context.trace(StartChange(self.epoch, members))
        self.links.live(members)
        self.above.start_change(self.epoch, members)
        self._form_view()

    def _form_view(self) -> None:
        """view_p(v): forms the view if all members of the proposed set have proposed it too, in the same epoch."""
        if not self.under_way:
            return
        proposed, proposals = self.start_change, self.proposals
        epoch, members = proposed
        for member in members:
            if proposals.get(member) != proposed:
                return
        self.under_way = False
        self.mbrshp_view = view = make_view(epoch, dict.fromkeys(members, epoch))
        if self.context.trace is not None:
            self.context.trace(MembershipView(view))
        self.links.live(members)
        self.above.membership_view(view)

    def _retry_proposal(self) -> None:
        """The last proposal timed out: repeats it unless its view was formed and delivered."""
        self._retry_at = inf
        if not self.under_way and self.above.current_view.id == self.mbrshp_view.id:
            self._attempts = 0
            self._patience = max(0, self._patience - 1)
            return
        epoch = self.epoch
        self._attempts += 1
        self._patience = min(self._patience + 1, PATIENCE_MAX)
        if self._attempts >= ATTEMPTS_MAX:
            until = self.context.now + 4 * self.settings.suspect_max
            proposed = self.start_change
            for member in [member for member in proposed[1] if self.proposals.get(member) != proposed]:
                self.detector.shun(member, until)
        if self.epoch == epoch:
            self._propose()

    # ---- talking

    def _send_heartbeat(self) -> None:
        self._clique()
        self._heartbeat_at = self.context.now + self.settings.heartbeat
        epoch, members = self.start_change
        self._send(Proposal(epoch or self.epoch, members, self._rows_to_send, False))

    def _send(self, proposal: Proposal) -> None:
        if self.links.connected_peers:
            self.context.outbox.append(Send(self.links.connected_peers, proposal))


def _is_plausible(proposal: Proposal, epoch_seen: int) -> bool:
    """Whether the proposal is within the limits that bound its cost."""
    if not (
        0 <= proposal.epoch <= epoch_seen + EPOCH_STEP_MAX
        and _are_plausible(proposal.members)
        and len(proposal.rows) <= PROCESSES_MAX
    ):
        return False
    for row in proposal.rows:
        if len(row.process.name) > NAME_LEN_MAX or max(row.version) >= 2**53 or not _are_plausible(row.hears):
            return False
    return True


def _are_plausible(processes: tuple[ProcessId, ...]) -> bool:
    # A list, because a generator would cost more, with every heartbeat.
    return len(processes) <= PROCESSES_MAX and max([len(one.name) for one in processes], default=0) <= NAME_LEN_MAX
