"""Totally ordered broadcast over dynamic primary views.

Life of an entry (functions of this file, unless a module is named):
1. submitted: `ReplicaLayer.submit_all` calls `broadcast`; the entry waits in `delay` (`submission_queue.py`).
2. labelled, as soon as this process is in an established primary view: `_label` takes a run of entries.
3. multicast to the members of the view: `_label` sends a `Batch` down through `PrimaryViews.send`, `ViewOrder.send` and
   `Endpoint.send` to the links.
4. ordered: `AdaptiveOrder._order` hands up the batches in one order at all members; `receive` calls `_append`.
5. durable: `_append` puts an `Appended` record into the outbox, `runtime/disk/log_writer.py` writes it, and `performed`
   learns of it. `ViewOrder.processed_up_to` prepares the acknowledgement, which leaves after the record is on disk.
6. safe: `ViewOrder._report_safe` calls `safe` when all members have acknowledged the batch.
7. confirmed: `safe` moves `next_confirm`. No later primary view can change the position.
8. applied: `_deliver_confirmed` hands entries that are confirmed and on the local disk to `ReplicaLayer.deliver`, which
   calls the state machine and completes the submission.
A view change interrupts this before step 7. The members of the next primary view exchange what they have (`new_view`,
`_receive_summary`, `state_exchange.py`), and continue from one common log (`_establish`).

Paper: De Prisco et al., PODC 1998, fig. 5 (DVS-TO-TO). State variables keep the paper's names; positions count from 0.
Departs:
- LABEL only in status normal of a view that is still primary. In the paper a label made between NEWVIEW and the summary
  is exchanged as content, sent again as a message, and ordered twice.
- One message carries a run of labels, and is stored, written and reported as one. `order` and the content of ordered
  entries are one variable, `log`; `content` holds the own runs that are in no order yet. Safe indications come in the
  order of the view, so `safe-labels` is a count.
- `log` begins at `base`: entries that are confirmed, reported and covered by the snapshots of all members are dropped.
- Summaries leave out the confirmed past. A member that lacks some of it gets it from the representative (`Supply`:
  entries, or a snapshot and the entries after it) and establishes the view in one step when it is complete. Until then
  the member acknowledges nothing of the exchange, so that nothing becomes safe that it does not hold, and it buffers
  messages that are ordered in the meantime.
- All members end the order of a new view with the entry for the view itself (`state_exchange.view_entry`).
- A member that comes back and has much to report does so in steps (`settings.report_len_max`), one each time it is
  called with the time: its runner has other work between them. Each newly confirmed entry also causes one report, so
  the backlog never grows. `caught_up` follows when everything confirmed before the view is reported.
- BRCV also waits for the local disk: nothing is reported, and no snapshot of another process restored, before the
  record that holds it is durable here (`performed`). An own acknowledgement counts at once, so `next_confirm` may be
  ahead of the disk; messages to other members that depend on it are effects after the record.
Above: replica.  Below: primary views.  `links` carries supplies.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Protocol

from cluster.actions import Broadcast, CatchUp, Confirm, Deliver, Established
from cluster.durable import Appended, Image, Labelled, Rebuilt, Snapshotted, Truncated
from cluster.entries import Entry
from cluster.layer import Context, Ejected, Persist
from cluster.messages import Batch, ClientMessage, Payload, Resume, Summary, Supply
from cluster.run_log import Run, RunLog, runs_of
from cluster.state_exchange import ExchangeResult, combine_summaries
from cluster.state_transfer import StateTransfer, split_state
from cluster.submission_queue import SubmissionQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.names import Label, ProcessId, View, ViewId
    from cluster.settings import Settings

NORMAL, SEND, COLLECT = "normal", "send", "collect"


class Above(Protocol):
    def labelled(self, view_id: ViewId, seqno: int, tickets: list[int]) -> None: ...
    def deliver(self, position: int, run: Run) -> None: ...
    def restore(self, snapshot: Snapshotted) -> None: ...
    def established(self, view: View) -> None: ...
    def caught_up(self, view: View) -> None: ...
    def primary_lost(self) -> None: ...


class Below(Protocol):
    @property
    def has_room(self) -> bool: ...
    @property
    def is_primary(self) -> bool: ...
    def send(self, body: ClientMessage) -> None: ...
    def register(self) -> None: ...
    def processed(self, count: int) -> None: ...


class LinkStreams(Protocol):
    def feed(self, peer: ProcessId, pieces: Sequence[Payload]) -> None: ...
    def skip(self, peer: ProcessId, is_needed: Callable[[Payload], bool]) -> None: ...
    def stop_feeding(self) -> None: ...
    def send(self, to: tuple[ProcessId, ...], body: Payload) -> None: ...


class TotalOrder:
    """The total order at one process (DVS-TO-TO_p)."""

    __slots__ = ("_aside", "_catch_up_end", "_incoming", "_interrupted", "_outcome", "_report_end", "_reporting",
                 "_safe_count", "_to_restore", "_unwritten", "above", "below", "content", "context", "current", "delay",
                 "durable_end", "gotstate", "high_primary", "highest", "links", "log", "next_confirm", "next_report",
                 "nextseqno", "reported_highest", "safe_exch", "settings", "snapshot", "status")  # fmt: skip

    above: Above
    below: Below
    links: LinkStreams

    def __init__(self, context: Context, settings: Settings, image: Image) -> None:
        self.context = context
        self.settings = settings
        self.current: View | None = None
        self.status = NORMAL
        self.delay = SubmissionQueue()
        self.content: dict[Label, Run] = dict(image.labelled)  # by first label
        self.nextseqno = 1
        self.snapshot = image.snapshot
        self.log = image.log.copy()
        self.next_confirm = max(image.next_confirm, image.snapshot.position if image.snapshot else 0)
        self.next_report = image.snapshot.position if image.snapshot else 0
        self.durable_end = self.log.end  # positions below are on this disk; only these are reported
        # log records not yet on disk: number of effects up to each, end of the log then, how much to report
        self._unwritten: deque[tuple[int, int, int]] = deque()
        self._to_restore: Snapshotted | None = None  # snapshot of another process, until it is on this disk
        self.high_primary: ViewId | None = image.high_primary
        # the greatest label of each origin among all that is ordered, and among what is reported
        self.reported_highest = {label.origin: label for label in (image.snapshot.highest if image.snapshot else ())}
        self.highest = dict(self.reported_highest)
        for run in self.log.runs(self.next_report):
            self.highest[run.origin] = run.last
        self.gotstate: dict[ProcessId, Summary] = {}
        self.safe_exch: set[ProcessId] = set()
        self._safe_count = 0  # positions below this are safe, once the exchange is
        self._outcome: ExchangeResult | None = None  # the result of the exchange, while a state transfer is pending
        self._incoming: dict[ProcessId, StateTransfer] = {}  # by sender
        self._interrupted: StateTransfer | None = None  # the most complete transfer of an earlier view
        self._aside: list[tuple[ProcessId, Batch]] = []
        self._reporting = False
        self._report_end = 0  # end of the current step of reports
        self._catch_up_end = -1  # positions below have to be reported before `caught_up`; -1: no such call is due

    @property
    def base(self) -> int:
        return self.log.base

    @property
    def length(self) -> int:
        return self.log.end

    @property
    def is_normal(self) -> bool:
        """Whether this process takes part in a primary view that it has established."""
        return self.status is NORMAL and self.current is not None and self.below.is_primary

    @property
    def is_behind(self) -> bool:
        """Whether entries are confirmed and on disk, but not reported yet."""
        return self.next_report < self.next_confirm and self.next_report < self.durable_end

    def start(self) -> None:
        """After a restart: restores the snapshot, then reports all entries known to be confirmed."""
        if self.snapshot is not None:
            self.above.restore(self.snapshot)
        self._deliver_confirmed(self.next_confirm - self.next_report)

    def performed(self, count: int) -> None:
        """The first `count` effects of this life took place: the records among them are on disk."""
        unwritten = self._unwritten
        reports = 0
        while unwritten and unwritten[0][0] <= count:
            _, self.durable_end, more = unwritten.popleft()
            reports += more
        if reports and self.is_behind:
            self._deliver_confirmed(reports)

    def _wait_for_disk(self, reports: int) -> None:
        """Notes that the record at the end of the outbox holds the log up to its present end."""
        context = self.context
        if context.is_volatile:
            self.durable_end = self.log.end
        else:
            self._unwritten.append((context.taken + len(context.outbox), self.log.end, reports))

    def tick(self) -> None:
        self._deliver_confirmed(self.settings.report_len_max)

    def next_deadline(self) -> float:
        return self.context.now if self.is_behind else inf

    # input BCAST(a)_p, for several a's with the tickets of their submissions
    def broadcast(self, tickets: Sequence[int], kind: str, bodies: Sequence[bytes]) -> None:
        if self.context.trace is not None:
            for body in bodies:
                self.context.trace(Broadcast(Entry(kind, body)))
        self.delay.put(tickets, kind, bodies)
        self._label()

    def withdraw(self, ticket: int) -> bool:
        """Takes back a submission without a label. False: it has a label, and its outcome is open."""
        return self.delay.withdraw(ticket)

    def unlabelled(self) -> list[int]:
        """The tickets of submissions that could still be withdrawn."""
        return self.delay.tickets

    def roomy(self) -> None:
        self._label()

    # internal LABEL(a)_p for a run of a's, and output DVS-GPSND(<l, a>)_p
    def _label(self) -> None:
        while self.delay and self.is_normal and self.below.has_room:
            assert self.current is not None
            seqno = self.nextseqno
            tickets, pack = self.delay.take(self.settings.batch_len_max)
            run = Run(self.current.id, seqno, self.context.me, pack)
            self.nextseqno = seqno + pack.count
            first = run.first
            self.content[first] = run
            self.above.labelled(run.view_id, seqno, tickets)
            self.below.send(Batch(seqno, run.pack))
            if first in self.content:  # not ordered at once
                self.context.outbox.append(Persist(Labelled(run)))

    # input DVS-NEWVIEW(v)_p, and output DVS-GPSND(x)_p
    def new_view(self, view: View) -> None:
        self.current = view
        self.links.stop_feeding()
        self.nextseqno = 1
        self.gotstate = {}
        self.safe_exch = set()
        self._outcome = None
        self._aside = []
        past = [series for series in self._incoming.values() if series.view_id < view.id]
        if self._interrupted is not None:
            past.append(self._interrupted)
        self._interrupted = max(past, key=lambda series: series.snapshot_len, default=None)
        self._incoming = {peer: series for peer, series in self._incoming.items() if series.view_id >= view.id}
        self.status = SEND
        self.below.send(self._summary())
        self.status = COLLECT

    def _summary(self) -> Summary:
        return Summary(
            self.base,
            self.next_confirm,
            tuple(self.log.since(self.next_confirm)),
            tuple(pair for first in sorted(self.content) for pair in self.content[first].labelled()),
            self.high_primary,
            tuple(self.highest[origin] for origin in sorted(self.highest)),
        )

    def primary_lost(self) -> None:
        self._catch_up_end = -1
        self.above.primary_lost()

    def is_expected(self, sender: ProcessId, body: ClientMessage) -> bool:
        """Whether the protocol allows this message now: one summary, then batches with the sender's next labels."""
        assert self.current is not None
        if type(body) is Summary:
            latest = body.high_primary is None or body.high_primary < self.current.id
            return latest and self.status is not NORMAL and sender not in self.gotstate
        if self.status is NORMAL:
            last = self.highest.get(sender)
            following = last.seqno + 1 if last is not None and last.view_id == self.current.id else 1
        elif sender in self.gotstate:
            earlier = (batch.seqno + batch.pack.count for origin, batch in reversed(self._aside) if origin == sender)
            following = next(earlier, 1)
        else:
            return False
        return body.seqno == following and body.pack.count > 0

    # input DVS-GPRCV(m)_{q,p}
    def receive(self, sender: ProcessId, body: ClientMessage) -> None:
        if type(body) is Summary:
            self._receive_summary(sender, body)
        elif self.status is NORMAL:
            self._append(sender, body)
            self.below.processed(1)
        else:
            self._aside.append((sender, body))

    def _append(self, sender: ProcessId, batch: Batch) -> None:
        assert self.current is not None
        position = self.log.end
        run = Run(self.current.id, batch.seqno, sender, batch.pack)
        if sender == self.context.me:
            run = self.content.pop(run.first)
        self.log.append(run)
        self.highest[sender] = run.last
        self.context.outbox.append(Persist(Appended(position, run)))
        self._wait_for_disk(run.pack.count)

    def _receive_summary(self, sender: ProcessId, summary: Summary) -> None:
        assert self.current is not None
        self.gotstate[sender] = summary
        if len(self.gotstate) == len(self.current.members) and self.status is COLLECT:
            self._outcome = combine_summaries(self.current, self.gotstate)
            if self._outcome.representative == self.context.me:
                self._supply_others(self._outcome)
            self._establish_when_complete()

    def _supply_others(self, outcome: ExchangeResult) -> None:
        assert self.current is not None
        for member, position in outcome.lacking:
            snapshot = self.snapshot if position < self.base else None
            if snapshot is not None:
                position = snapshot.position
            runs = self.log.runs(position, outcome.position)
            self.links.feed(member, split_state(self.current.id, snapshot, position, runs, self.settings.supply_bytes))

    def supplied(self, sender: ProcessId, supply: Supply) -> None:
        """Handles a piece of a state transfer, possibly for a view that is not attempted here yet."""
        if self.current is not None and supply.view_id < self.current.id:
            return
        incoming = self._incoming.get(sender)
        if incoming is None or incoming.view_id < supply.view_id:
            incoming = self._incoming[sender] = StateTransfer(supply.view_id)
        if incoming.view_id == supply.view_id:
            incoming.add(supply)
            if supply.piece == 0 and self._interrupted is not None:
                piece = incoming.resume_from(self._interrupted)
                if piece > 1:
                    self.links.send((sender,), Resume(supply.view_id, piece))
            self._establish_when_complete()

    def resume(self, sender: ProcessId, resume: Resume) -> None:
        """The receiver of a state transfer has part of the snapshot from an earlier view: skips that part."""
        if self.current is not None and resume.view_id == self.current.id:
            self.links.skip(sender, lambda piece: type(piece) is not Supply or piece.piece >= resume.piece)

    def _establish_when_complete(self) -> None:
        outcome = self._outcome
        if outcome is None or self.current is None or not self.below.is_primary:
            return
        if not any(member == self.context.me for member, _ in outcome.lacking):
            if self.base <= outcome.position <= self.length:
                self._establish(outcome, None)
            else:
                self._eject(outcome.representative, "its confirmed entries contradict the local order")
            return
        incoming = self._incoming.get(outcome.representative)
        if incoming is not None and incoming.view_id == self.current.id and incoming.is_complete:
            if incoming.fits(self.base, self.length, outcome.position):
                self._establish(outcome, incoming)
            else:
                self._eject(outcome.representative, "its state transfer does not contain the requested positions")

    def _eject(self, peer: ProcessId, reason: str) -> None:
        """Abandons this view after an invalid message: the peer is ejected, and the next view is without it."""
        self._outcome = None
        self._incoming.pop(peer, None)
        self.context.outbox.append(Ejected(peer, reason))

    def _establish(self, outcome: ExchangeResult, supply: StateTransfer | None) -> None:
        assert self.current is not None
        restored = supply.snapshot() if supply is not None else None
        position, runs = (supply.position, supply.runs) if supply is not None else (outcome.position, [])
        runs = [*runs, *runs_of(outcome.order)]
        if restored is not None:
            self.log, self.snapshot = RunLog(position), restored
        self.log.cut(position)
        self.log.extend(runs)
        self.highest = outcome.highest
        self.content = {}
        self.next_confirm = outcome.next_confirm
        self.high_primary = self.current.id
        self._safe_count = self.length
        self._outcome = None
        self._incoming = {}
        self._interrupted = None
        if self.context.trace is not None:
            self.context.trace(Established(self.current, self.length))
        self.context.outbox.append(
            Persist(Rebuilt(position, tuple(runs), self.current.id, self.next_confirm, restored)),
        )
        self.durable_end = self.next_report  # reported entries stay in every order; the rest waits for this record
        self._unwritten.clear()
        self._wait_for_disk(self.settings.report_len_max)
        if restored is not None:
            self._to_restore = restored
        # Buffered messages come before anything that the calls below cause, so before the status is normal.
        aside, self._aside = self._aside, []
        for sender, batch in aside:
            self._append(sender, batch)
        processed = len(self.gotstate) + len(aside)
        self.gotstate = {}
        self.status = NORMAL
        self.below.register()  # output DVS-REGISTER_p
        self.below.processed(processed)
        self.above.established(self.current)
        self._catch_up_end = self.next_confirm
        self._deliver_confirmed(self.settings.report_len_max)
        self._label()

    # input DVS-SAFE(m)_{q,p}, and internal CONFIRM_p
    def safe(self, sender: ProcessId, body: ClientMessage) -> None:
        assert self.current is not None
        if type(body) is Summary:
            self.safe_exch.add(sender)
            if len(self.safe_exch) < len(self.current.members):
                return
        else:
            self._safe_count += body.pack.count
        more = self._safe_count - self.next_confirm
        if more > 0:
            self.next_confirm = self._safe_count
            if self.context.trace is not None:
                self.context.trace(Confirm(self.next_confirm))
            self._deliver_confirmed(more)

    # output BRCV(a)_{q,p}, for runs of a's; a run ends where a snapshot is due
    def _deliver_confirmed(self, count: int) -> None:
        """Delivers the next entries, at most `count`, that are confirmed and on the local disk."""
        if self._reporting:  # reentrant call: a delivery may submit entries
            self._report_end += count
            return
        self._reporting = True
        self._report_end = count
        if self._to_restore is not None and self._to_restore.position <= self.durable_end:
            self._restore(self._to_restore)
        self._report_end += self.next_report
        every = self.settings.snapshot_every
        while (position := self.next_report) < (limit := min(self.next_confirm, self.durable_end, self._report_end)):
            run, offset = self.log.find(position)
            end = position + run.pack.count - offset
            limit = min(limit, position - position % every + every)
            if offset or end > limit:
                end = min(end, limit)
                run = run.part(offset, offset + end - position)
            self.next_report = end
            self.reported_highest[run.origin] = run.last
            if self.context.trace is not None:
                for i, (label, entry) in enumerate(run.labelled(), position):
                    self.context.trace(Deliver(i, label, entry))
            self.above.deliver(position, run)
        self._reporting = False
        if 0 <= self._catch_up_end <= self.next_report:
            self._catch_up_end = -1
            assert self.current is not None
            self.above.caught_up(self.current)

    def _restore(self, snapshot: Snapshotted) -> None:
        """Continues from the state of another process, which is on this disk now."""
        self._to_restore = None
        self.next_report = snapshot.position
        self.reported_highest = {label.origin: label for label in snapshot.highest}
        if self.context.trace is not None:
            self.context.trace(CatchUp(snapshot.position))
        self.above.restore(snapshot)

    def keep_snapshot(self, state: bytes) -> None:
        """Stores the state machine's state after all reported entries. Called inside a delivery."""
        highest = tuple(self.reported_highest[origin] for origin in sorted(self.reported_highest))
        self.snapshot = Snapshotted(self.next_report, highest, state)
        self.context.outbox.append(Persist(self.snapshot))

    def truncate(self, base: int) -> None:
        """Drops the log below `base`: all members have snapshots at `base` or later."""
        if self.snapshot is None:
            return
        base = min(base, self.snapshot.position)
        before = self.log.base
        self.log.drop_below(base)
        if self.log.base > before:
            self.context.outbox.append(Persist(Truncated(base)))
