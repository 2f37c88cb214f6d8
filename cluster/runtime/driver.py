"""Runs the protocol stack of one process on the asyncio event loop: inputs, effects in order, one timer.

The driver hands in inputs as they arrive and performs their effects at the end of the loop turn. So everything for one
peer leaves in one write, and everything for the disk in one transaction. Effects behind a `Persist` wait until it is
durable. Records that arrive meanwhile join the next transaction (group commit). The window of the view order bounds how
much can wait: no member's messages become safe without this process.

A process that restarts may have thousands of entries to deliver. The driver delivers them for a few milliseconds per
turn, from its timer. Connections and other timers run in between, so peers do not suspect this process and application
deadlines are met while it catches up.

Entries submitted here collect in `submissions`, which decides when the next batch leaves.
Above: group.  Below: transport, store, `cluster.stack.Process`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from contextlib import suppress
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from cluster.layer import (
    Delivered,
    DeliveredRun,
    Diverged,
    Effect,
    Ejected,
    InterimAnswered,
    InterimRefreshed,
    KnownPeers,
    LoadChanged,
    Outvoted,
    Persist,
    PrimaryChanged,
    QueryAnswered,
    Send,
)
from cluster.messages import Ack, Data, LinkAck
from cluster.reports.view_tap import ReportsViewTap
from cluster.runtime.disk.memory_store import MemoryStore
from cluster.runtime.disk.store_errors import DiskFull, StoreError
from cluster.runtime.disk.writer_thread import WriterThread
from cluster.runtime.fatal_errors import DiskRefuses, MemberStops
from cluster.runtime.net.handshake import DATA, INTERIM, REPORTS
from cluster.runtime.net.report_streams import ReportStreams
from cluster.runtime.net.transport import Transport
from cluster.runtime.observe.observer import Observer
from cluster.runtime.submissions import SubmissionListener, Submissions
from cluster.stack import Process

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cluster.actions import Action
    from cluster.data.replica import Queryable
    from cluster.durable import Record
    from cluster.interim.shared_object import SharedObject
    from cluster.messages import Frame
    from cluster.names import ProcessId, View
    from cluster.replica import StateMachine
    from cluster.runtime.api.options import Options
    from cluster.runtime.api.reports import Reports
    from cluster.runtime.disk.memory_store import AnyStore
    from cluster.runtime.disk.rows import Recovery
    from cluster.runtime.submissions import Handle
    from cluster.view_order import ViewOrder

WRITE_AGAIN_S = 0.5  # delay before a failed write is retried
EARLY_S = 0.0005  # a deadline this close counts as reached: loop timers have millisecond resolution
CATCH_UP_S = 0.003  # time per turn for delivering the backlog
DRAIN_S = 2.0  # how long a process that closes waits for its disk
EFFECTS_MAX = 200_000  # bound on the effects that wait for the disk

log = logging.getLogger("cluster.driver")

Kept = TypeVar("Kept")


class DriverListener(SubmissionListener, Protocol):
    """Receives the events that the driver reports: the group."""

    def on_primary_changed(self, view: View | None) -> None: ...
    def on_diverged(self, effect: Diverged) -> None: ...
    def on_outvoted(self, effect: Outvoted) -> MemberStops: ...
    def on_failed(self, error: BaseException) -> None: ...


class InterimListener(Protocol):
    """The client of the interim service: `runtime.api.interim_service`."""

    @property
    def shared(self) -> SharedObject: ...
    def on_answered(self, ticket: int, result: object) -> None: ...
    def on_refreshed(self, members: tuple[ProcessId, ...]) -> None: ...


class QueryListener(Protocol):
    """The client of the data service: `runtime.api.data_service`."""

    @property
    def machine(self) -> Queryable: ...
    def on_answered(self, ticket: int, result: object) -> None: ...
    def on_load_changed(self, load: LoadChanged) -> None: ...


class Driver:
    """Drives one `cluster.stack.Process`: feeds it inputs, performs its effects, wakes it at its deadlines."""

    def __init__(
        self,
        options: Options,
        me: ProcessId,
        store: AnyStore,
        machine: StateMachine,
        above: DriverListener,
        *,
        founder: bool,
        interim: InterimListener | None = None,
        queries: QueryListener | None = None,
        reports: Reports | None = None,
        order_log: Path | None = None,
        trace: Path | None = None,
    ) -> None:
        image = store.load()
        self.options = options
        self.me = me
        self.above = above
        self.store = store
        self._durable = not isinstance(store, MemoryStore)
        self.watch = Observer(order_log)
        self.recorder: TraceRecorder | None = None
        if trace is not None:
            from cluster.runtime.observe.trace_recorder import TraceRecorder  # imports all specifications

            self.recorder = TraceRecorder(trace, me, image.boot + 1, me if founder else None)
        observe = self._record if self.recorder is not None else None
        taps = dict(self.watch.taps)
        if reports is not None:
            inner = taps["endpoint"]
            taps["endpoint"] = lambda process, above: ReportsViewTap(reports, cast("ViewOrder", inner(process, above)))
        self.process = Process(
            me,
            options.settings,
            image,
            machine,
            random.Random(),
            observe,
            taps,
            is_volatile=not self._durable,
            shared=interim.shared if interim is not None else None,
            queryable=queries.machine if queries is not None else None,
            wall_clock=time.time,
        )
        self.interim = interim
        self.queries = queries
        self.transport = Transport(options, me, self.process.boot, store.founding, self)
        self.reports = reports
        if reports is not None:
            self.transport.report_streams = ReportStreams(self.transport, reports)
            reports.attach(me, self.transport.report_streams)
        services = ((INTERIM, interim), (DATA, queries), (REPORTS, reports))
        self.transport.services = tuple(name for name, service in services if service is not None)
        self.transport.recoveries = store.recoveries
        self.writes = 0  # committed transactions
        self.write_failing = False
        self._refused_since = 0.0
        self.submissions = Submissions(above)
        self._writer = WriterThread(store) if self._durable else None
        self._loop = asyncio.get_running_loop()
        self._effects: deque[Effect] = deque()  # effects that wait for the disk
        self._done = 0  # effects performed so far
        self._writing = False
        self._idle = asyncio.Event()  # set when nothing waits for the disk
        self.turn_due = False
        self._dirty = False  # an input arrived whose effects are not performed yet
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._rearm = True  # an input may have moved the next deadline
        self._stopped = False

    def _record(self, action: Action) -> None:
        assert self.recorder is not None
        context = self.process.context
        self.recorder.note(action, context.taken + len(context.outbox))

    # ---- start and stop

    async def start(self) -> None:
        await self.transport.listen()
        self.process.start(time.monotonic())
        self._schedule_turn()
        await self.transport.start()

    async def close(self) -> None:
        self._disarm()
        if not self._stopped:
            self.turn()
            await self._drained()
        self._stopped = True
        await self.transport.close()
        if self._writer is not None:
            await self._writer.close()
        if self.recorder is not None:
            self.recorder.close()
        self.watch.close()

    async def _drained(self) -> None:
        """Wait until pending writes are durable and the effects behind them performed, at most `DRAIN_S`."""
        self._idle.clear()
        if self._effects and not self._stopped:
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await self._idle.wait()

    def _fail(self, error: BaseException) -> None:
        """Stop the process: its last step may be half done, so it cannot continue."""
        log.error("this member stops: %s", error, exc_info=None if isinstance(error, MemberStops) else error)
        self._stopped = True
        self.transport.hang_up()
        self.above.on_failed(error)

    # ---- inputs

    def on_connected(self, peer: ProcessId) -> None:
        for service, name in ((self.process.interim, INTERIM), (self.process.data, DATA)):
            if service is not None and self.transport.has_service(peer, name):
                service.incapable.discard(peer)
            elif service is not None:
                service.incapable.add(peer)
        self._input(lambda now: self.process.connected(now, peer))
        if self.transport.report_streams is not None and self.transport.has_service(peer, REPORTS):
            self.transport.report_streams.on_link(peer)

    def on_disconnected(self, peer: ProcessId) -> None:
        self._input(lambda now: self.process.disconnected(now, peer))
        if self.transport.report_streams is not None:
            self.transport.report_streams.on_link_lost(peer)

    def on_received(self, peer: ProcessId, frame: Frame) -> None:
        if self._stopped:
            return
        try:
            self.process.received(time.monotonic(), peer, frame)
        except Exception as error:
            error.add_note(f"while a {type(frame).__name__} of {peer} was handled")
            self._fail(error)
            return
        kind = type(frame.body) if type(frame) is Data else type(frame)
        if kind is not Ack and kind is not LinkAck:
            self._dirty = True
            if kind is type(frame):
                self._rearm = True
        elif self.process.context.outbox:  # most acknowledgements change nothing and produce no effects
            self._dirty = True

    def on_founding(self, founding: str) -> None:
        """Store the id of the cluster's founding, as the first member that this process met reported it.

        One thread writes, in call order. So the id is on disk before anything received from that group.
        """
        self._store_value(self.store.belong_to, founding)

    def on_recoveries(self, recoveries: tuple[Recovery, ...]) -> None:
        self._store_value(self.store.learn_recoveries, recoveries)

    def is_needed(self, name: str) -> bool:
        """Whether a process of this name is in a primary view that may still decide. True if no view is known."""
        used = self.process.primary.use
        return not used or any(member.name == name for view in used for member in view.members)

    def _store_value(self, keep: Callable[[Kept], None], what: Kept) -> None:
        if self._writer is None:
            keep(what)
        elif not self._stopped:
            self._writer.call(lambda: keep(what), self._on_kept)

    def _on_kept(self, error: Exception | None) -> None:
        """Stop if the store could not save the founding or the recoveries."""
        if error is not None and not self._stopped:
            self._fail(DiskRefuses(str(error)) if isinstance(error, StoreError) else error)

    def _input(self, hand_in: Callable[[float], None]) -> None:
        """Hand in an input that may move the next deadline. If the process raises, its state is undefined: stop."""
        if self._stopped:
            return
        try:
            hand_in(time.monotonic())
        except Exception as error:
            self._fail(error)
            return
        self._rearm = True
        self._schedule_turn()

    def submit(self, body: bytes, handle: Handle) -> None:
        """Submit an entry for ordering. It leaves at the end of the turn at the earliest."""
        self.submissions.put(body, handle)
        if not self.turn_due:
            self._schedule_turn()

    def request(self, body: bytes) -> int:
        """Request an operation of the interim service. Its result arrives later, with the ticket that is returned."""
        return self._request(lambda now: self.process.request(now, body))

    def query(self, body: bytes, seen: int) -> int:
        """Ask the data service. The answer arrives later, with the ticket that is returned."""
        return self._request(lambda now: self.process.query(now, body, seen))

    def withdraw_query(self, ticket: int) -> None:
        """The caller no longer waits for the answer to this query."""
        self._request(lambda now: self.process.withdraw_query(now, ticket))

    def load_reported(self, name: str, age_s: float, waiting: int, service_us: int) -> None:
        """Note the load that a member of the data service reported `age_s` seconds ago. It has no effects."""
        if not self._stopped:
            self.process.load_reported(time.monotonic(), name, age_s, waiting, service_us)

    def _request(self, hand_in: Callable[[float], int]) -> int:
        """Hand in an input that has a result; 0 if this member has stopped."""
        found: list[int] = []
        self._input(lambda now: found.append(hand_in(now)))
        return found[0] if found else 0

    def leave(self) -> None:
        self._input(self.process.leave)

    def _schedule_turn(self) -> None:
        self._dirty = True
        if not self.turn_due and not self._stopped:
            self.turn_due = True
            self._loop.call_soon(self.turn)

    # ---- end of a turn

    def turn(self) -> None:
        """Perform the effects of all inputs since the last call. Called after each read and at the end of a turn."""
        self.turn_due = False
        if self._stopped or not (self._dirty or self.submissions.waiting):
            return
        self._dirty = False
        self.turn_due = True  # submissions made meanwhile belong to this turn
        try:
            submissions = self.submissions
            # a completed entry may trigger the next submission
            if submissions.outstanding and self.process.context.outbox:
                self._perform(self.process.take(more=True))
            while submissions.is_batch_due:
                submissions.submit_batch(self.process.submit_all)
                if submissions.is_batch_due:
                    self._perform(self.process.take(more=True))
                    self.transport.flush()
            self._perform(self.process.take())
            self.transport.flush()
            if not self._effects:
                self.transport.answered()
            if self._rearm or self.process.is_behind:
                self._arm()
        except Exception as error:
            self._fail(error)
        self.turn_due = False
        if self._dirty or self.submissions.is_batch_due:
            self._schedule_turn()

    def withdraw(self, handle: Handle) -> bool:
        """Cancel the submission of this handle if that is still possible."""
        if self.submissions.withdraw(handle):
            return True
        ticket = self.submissions.ticket_of(handle)
        if ticket is None or not self.process.withdraw(time.monotonic(), ticket):
            return False
        self._schedule_turn()
        return True

    def _arm(self) -> None:
        """Set the timer. Deadlines from ordinary traffic (link acknowledgements) may wait for the next heartbeat."""
        self._rearm = False
        deadline = self.process.next_deadline()
        if deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = deadline
            self._timer = self._loop.call_later(max(0.0, deadline - time.monotonic()), self._wake)

    def _disarm(self) -> None:
        """Stop the timer for good. A closing member stops delivering its backlog, which would keep it writing."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, -inf

    def _wake(self) -> None:
        self._timer, self._timer_at = None, inf
        self._input(self._tick)

    def _tick(self, now: float) -> None:
        deadline = self.process.next_deadline()
        if deadline <= now + EARLY_S:
            self.process.tick(max(now, deadline))
            enough = now + CATCH_UP_S
            while self.process.is_behind and (now := time.monotonic()) < enough:
                self.process.tick(now)

    # ---- effects

    def _perform(self, effects: list[Effect]) -> None:
        if not effects and self.recorder is None:
            return
        if not self._durable:
            self._done += len(effects)
            if self.recorder is not None:
                self.recorder.write_up_to(self._done)
            self._perform_now(effects)
            return
        self._effects.extend(effects)
        if not self._writing:
            self._perform_until_write()

    def _perform_until_write(self) -> None:
        """Perform effects up to the first record, then write it and all records behind it in one transaction."""
        waiting = self._effects
        first = next((at for at, effect in enumerate(waiting) if type(effect) is Persist), len(waiting))
        self._finish(first)
        if waiting:
            count = len(waiting)
            if self.recorder is not None:
                count = self.recorder.transaction_length(self._done, count)
            records = [effect.record for effect in islice(waiting, count) if type(effect) is Persist]
            self._writing = True
            self._write(records, count)

    def _finish(self, count: int) -> None:
        """Perform the next `count` effects, whose records are durable."""
        self._done += count
        if self.recorder is not None:
            self.recorder.write_up_to(self._done)
        self._perform_now([self._effects.popleft() for _ in range(count)])

    def _write(self, records: list[Record], count: int) -> None:
        if self._stopped or self._writer is None:
            return
        self._writer.write(records, lambda error: self._written(error, records, count))

    def _written(self, error: Exception | None, records: list[Record], count: int) -> None:
        if self._stopped:
            return
        if error is not None:
            self._refused(error, records, count)
            return
        self.writes += 1
        self.write_failing = self._writing = False
        self._dirty = self.turn_due = True  # submissions made meanwhile belong to the turn below
        try:
            self._finish(count)
            self._perform_until_write()
            self.process.performed(time.monotonic(), self._done)
        except Exception as problem:
            self._fail(problem)
            return
        self.turn()
        if not self._effects:
            self._idle.set()

    def _refused(self, error: BaseException, records: list[Record], count: int) -> None:
        """Retry while the disk is full. Stop after any other failure, since what was written is unknown."""
        now, wait_s = time.monotonic(), self.options.bounds.disk_wait_s
        if not self.write_failing:
            self.write_failing, self._refused_since = True, now
            if isinstance(error, DiskFull):
                log.error("the disk is full; this member retries for at most %g s: %s", wait_s, error)
        if not isinstance(error, DiskFull):
            self._fail(DiskRefuses(str(error)) if isinstance(error, StoreError) else error)
        elif now - self._refused_since > wait_s or len(self._effects) > EFFECTS_MAX:
            self._fail(DiskRefuses(f"the disk was full for {now - self._refused_since:.0f} s: {error}"))
        else:
            self._loop.call_later(WRITE_AGAIN_S, self._write, records, count)

    def _perform_now(self, effects: list[Effect]) -> None:
        send = self.transport.send
        for effect in effects:
            if type(effect) is Send:
                send(effect.to, effect.frame)
            elif type(effect) is DeliveredRun:
                self.submissions.complete_run(effect)
            elif type(effect) is not Persist:
                self._perform_rare(effect)

    def _perform_rare(self, effect: Effect) -> None:
        if isinstance(effect, Delivered):
            self.submissions.complete_one(effect)
        elif isinstance(effect, InterimAnswered):
            assert self.interim is not None
            self.interim.on_answered(effect.ticket, effect.result)
        elif isinstance(effect, QueryAnswered):
            assert self.queries is not None
            self.queries.on_answered(effect.ticket, effect)
        elif isinstance(effect, LoadChanged):
            assert self.queries is not None
            self.queries.on_load_changed(effect)
        elif isinstance(effect, InterimRefreshed):
            assert self.interim is not None
            self.interim.on_refreshed(effect.members)
        elif isinstance(effect, PrimaryChanged):
            self.above.on_primary_changed(effect.view)
        elif isinstance(effect, KnownPeers):
            self.transport.keep_connected(peer.name for peer in effect.peers)
        elif isinstance(effect, Diverged):
            self.above.on_diverged(effect)
        elif isinstance(effect, Ejected):
            self.transport.eject(effect.peer, effect.reason)
        elif isinstance(effect, Outvoted):
            raise self.above.on_outvoted(effect)
