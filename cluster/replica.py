"""Replicated state machine layer: applies the total order, takes snapshots and resolves submissions.

The state machine sees the same entries at the same positions on all replicas. This layer adds:
- changes of the primary view as entries of the order;
- a snapshot every `snapshot_every` positions. Its digest goes through the order, so that diverging replicas are
  detected (`divergence.py`), and the log is truncated below what all members have snapshots of;
- an outcome for every submission.
Users of the library get `cluster.Replica` (`runtime/api/replica.py`), a complete member around this layer.
Departs: the papers end at the totally ordered broadcast.
Below: total order.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

import msgspec

from cluster.actions import Applied, Resolved, Restored, StateDigest, Submitted
from cluster.divergence import judge_states
from cluster.entries import APPLICATION, CHECKPOINT, VIEW, Entry
from cluster.layer import Context, Delivered, DeliveredRun, Diverged, Outvoted, PrimaryChanged
from cluster.names import ProcessId, View, ViewId
from cluster.state_exchange import view_of_entry
from cluster.submission_index import NO_TICKET, SubmissionIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.durable import Snapshotted
    from cluster.run_log import Run
    from cluster.settings import Settings

DIGESTS_KEPT = 8  # number of recent positions whose digests are kept for comparison


class StateMachine(Protocol):
    """The replicated state machine. Deterministic: only these calls may change its state or its results.

    It may also have `apply_all(position, origin, bodies)`: takes the entries at `position`, `position` + 1, ... in one
    call and returns the results that `apply` would return for each.
    """

    def apply(self, position: int, origin: ProcessId, body: bytes) -> object: ...
    def view_changed(self, position: int, view: View) -> None: ...
    def snapshot(self) -> bytes: ...
    def restore(self, state: bytes) -> None: ...


class Below(Protocol):
    def broadcast(self, tickets: Sequence[int], kind: str, bodies: Sequence[bytes]) -> None: ...
    def withdraw(self, ticket: int) -> bool: ...
    def unlabelled(self) -> list[int]: ...
    def keep_snapshot(self, state: bytes) -> None: ...
    def truncate(self, base: int) -> None: ...


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """The body of a CHECKPOINT entry: its origin has a snapshot at `position` with this digest."""

    position: int
    digest: str


class SnapshotState(msgspec.Struct, array_like=True):
    """The contents of a snapshot: a function of the order below its position, so equal at all replicas."""

    view: View | None  # the last primary view in the order
    checkpoints: list[tuple[ProcessId, int]]  # latest checkpoint of each member of that view
    machine: bytes


ApplyAll = Callable[[int, ProcessId, "Sequence[bytes]"], "Sequence[object]"]

_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(SnapshotState).decode
_decode_checkpoint = msgspec.msgpack.Decoder(Checkpoint).decode


class ReplicaLayer:
    __slots__ = ("_apply_all", "_checkpoint_waits", "_digests", "_reported_digests", "_tickets", "_unlabelled", "below",
                 "checkpoints", "context", "leaving", "machine", "primary", "settings", "ticket", "view")  # fmt: skip

    below: Below

    def __init__(self, context: Context, settings: Settings, machine: StateMachine) -> None:
        self.context = context
        self.settings = settings
        self.machine = machine
        self._apply_all: ApplyAll = getattr(machine, "apply_all", self._apply_each)
        self.view: View | None = None
        self.primary: View | None = None  # the primary view this process takes part in now
        self.checkpoints: dict[ProcessId, int] = {}
        self.leaving = False
        self.ticket = NO_TICKET
        self._unlabelled = 0  # submissions without a label
        self._tickets = SubmissionIndex()  # tickets of submissions with a label
        self._digests: dict[int, str] = {}  # digests of own snapshots, by position
        self._reported_digests: dict[
            int, dict[ProcessId, str]
        ] = {}  # by recent position: the digest that each member sent
        self._checkpoint_waits = NO_TICKET  # the ticket of a checkpoint without a label

    # ---- submissions

    @property
    def unresolved(self) -> int:
        return self._unlabelled + self._tickets.count

    def submit(self, body: bytes) -> int:
        """Submits an entry to the total order. Returns the ticket under which its outcome is reported, once."""
        return self.submit_all((body,))[0]

    def submit_all(self, bodies: Sequence[bytes]) -> Sequence[int]:
        """Submits several entries to the total order, in as few messages as possible."""
        count = len(bodies)
        if not self.leaving and self._unlabelled + count <= self.settings.delay_len_max:
            given = range(self.ticket + 1, self.ticket + count + 1)
            self.ticket += count
            self._unlabelled += count
            if self.context.trace is not None:
                for ticket, body in zip(given, bodies, strict=True):
                    self.context.trace(Submitted(ticket, body))
            self.below.broadcast(given, APPLICATION, bodies)
            return given
        tickets = []
        accepted: list[int] = []
        kept: list[bytes] = []
        for body in bodies:
            self.ticket += 1
            ticket = self.ticket
            tickets.append(ticket)
            if self.context.trace is not None:
                self.context.trace(Submitted(ticket, body))
            if self.leaving:
                self._resolve(ticket, False, -1, "this process is leaving the group")
            elif self._unlabelled >= self.settings.delay_len_max:
                self._resolve(ticket, False, -1, f"the queue is full: {self._unlabelled} entries are waiting")
            else:
                self._unlabelled += 1
                accepted.append(ticket)
                kept.append(body)
        self.below.broadcast(accepted, APPLICATION, kept)
        return tickets

    def withdraw(self, ticket: int) -> bool:
        """Takes a submission back, if it has no label yet: its outcome is then "refused"."""
        if ticket == self._checkpoint_waits or not self.below.withdraw(ticket):
            return False
        self._unlabelled -= 1
        self._resolve(ticket, False, -1, "withdrawn")
        return True

    def leave(self) -> None:
        """Accepts no new submissions, and refuses those without a label."""
        self.leaving = True
        for ticket in self.below.unlabelled():
            self.withdraw(ticket)

    def labelled(self, view_id: ViewId, seqno: int, tickets: list[int]) -> None:
        self._unlabelled -= len(tickets)
        if self._checkpoint_waits and self._checkpoint_waits in tickets:
            self._unlabelled += 1
            tickets[tickets.index(self._checkpoint_waits)] = self._checkpoint_waits = NO_TICKET
        self._tickets.put(view_id, seqno, tickets)

    def _resolve(self, ticket: int, delivered: bool, position: int, reason: str, result: object = None) -> None:
        if self.context.trace is not None:
            self.context.trace(Resolved(ticket, delivered, position, reason))
        self.context.outbox.append(Delivered(ticket, delivered, position, reason, result))

    # ---- the order

    def deliver(self, position: int, run: Run) -> None:
        """Applies the entries of a run, from `position` on. A snapshot may be due after the last entry, not before."""
        origin = run.origin
        tickets = self._tickets.take(run) if origin == self.context.me else None
        if self.context.trace is not None:
            for at, (label, entry) in enumerate(run.labelled(), position):
                self.context.trace(Applied(at, label, entry))
        results: Sequence[object]
        if run.pack.others:
            results = [self._apply_entry(at, origin, entry) for at, entry in enumerate(run.entries, position)]
        else:
            results = self._apply_all(position, origin, run.pack.bodies())
        if tickets:
            self._resolve_run(tickets, position, results)
        end = position + run.pack.count
        if end % self.settings.snapshot_every == 0:
            self._take_snapshot(end)

    def _apply_each(self, position: int, origin: ProcessId, bodies: Sequence[bytes]) -> Sequence[object]:
        apply = self.machine.apply
        return [apply(at, origin, body) for at, body in enumerate(bodies, position)]

    def _apply_entry(self, position: int, origin: ProcessId, entry: Entry) -> object:
        """Handles one entry of any kind and returns the state machine's result."""
        if entry.kind == APPLICATION:
            return self.machine.apply(position, origin, entry.body)
        if entry.kind == VIEW:
            self._enter(position, view_of_entry(entry))
        elif entry.kind == CHECKPOINT:
            self._checkpoint(origin, _decode_checkpoint(entry.body))
        return None

    def _resolve_run(self, tickets: list[int], position: int, results: Sequence[object]) -> None:
        if self.context.trace is not None:
            for at, ticket in enumerate(tickets, position):
                if ticket:
                    self.context.trace(Resolved(ticket, True, at, ""))
        self.context.outbox.append(DeliveredRun(tickets, position, results))

    def _enter(self, position: int, view: View) -> None:
        self.view = view
        self.checkpoints = {member: self.checkpoints[member] for member in view.members if member in self.checkpoints}
        self.machine.view_changed(position, view)

    def _checkpoint(self, origin: ProcessId, checkpoint: Checkpoint) -> None:
        ours = self._digests.get(checkpoint.position, checkpoint.digest)
        if ours != checkpoint.digest:
            self.context.outbox.append(Diverged(checkpoint.position, origin, ours, checkpoint.digest))
        if self.view is None or origin not in self.view.members:
            return
        self._compare(origin, checkpoint, self.view)
        self.checkpoints[origin] = max(checkpoint.position, self.checkpoints.get(origin, 0))
        if len(self.checkpoints) == len(self.view.members):
            self.below.truncate(min(self.checkpoints.values()))

    def _compare(self, origin: ProcessId, checkpoint: Checkpoint, view: View) -> None:
        """Compares the digests once all members of the view have sent theirs. Reports it if this process is wrong."""
        digests = self._reported_digests.setdefault(checkpoint.position, {})
        digests[origin] = checkpoint.digest
        verdict = judge_states(view, digests)
        if verdict is not None and verdict.wrong == self.context.me:
            self.context.outbox.append(
                Outvoted(checkpoint.position, digests[self.context.me], verdict.digest, verdict.kept)
            )
        if len(self._reported_digests) > DIGESTS_KEPT:
            del self._reported_digests[min(self._reported_digests)]

    def _take_snapshot(self, position: int) -> None:
        state = _encode(SnapshotState(self.view, sorted(self.checkpoints.items()), self.machine.snapshot()))
        self.below.keep_snapshot(state)
        self._announce(position, state)

    def _announce(self, position: int, state: bytes) -> None:
        digest = blake2b(state, digest_size=16).hexdigest()
        if self.context.trace is not None:
            self.context.trace(StateDigest(position, digest))
        self._digests[position] = digest
        if len(self._digests) > DIGESTS_KEPT:
            del self._digests[min(self._digests)]
        if self._checkpoint_waits:  # the earlier checkpoint was not sent yet and is obsolete
            self.below.withdraw(self._checkpoint_waits)
        self.ticket += 1
        self._checkpoint_waits = self.ticket
        self.below.broadcast((self.ticket,), CHECKPOINT, (_encode(Checkpoint(position, digest)),))

    def restore(self, snapshot: Snapshotted) -> None:
        """Continues from a snapshot: of the own disk, or of another replica."""
        if self.context.trace is not None:
            self.context.trace(Restored(snapshot.position))
        state = _decode_state(snapshot.state)
        self.machine.restore(state.machine)
        self.view = state.view
        self.checkpoints = dict(state.checkpoints)
        passed = next((label for label in snapshot.highest if label.origin == self.context.me), None)
        for ticket in self._tickets.take_up_to(passed) if passed is not None else ():
            if ticket:
                self._resolve(ticket, True, -1, "")
        self._announce(snapshot.position, snapshot.state)

    # ---- the primary view

    def established(self, view: View) -> None:
        """Does nothing: the application learns of the view in `caught_up`, when it has all earlier entries."""

    def caught_up(self, view: View) -> None:
        self.primary = view
        self.context.outbox.append(PrimaryChanged(view))

    def primary_lost(self) -> None:
        if self.primary is not None:
            self.primary = None
            self.context.outbox.append(PrimaryChanged(None))
