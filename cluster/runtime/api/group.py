"""Group membership API: found or join a group, broadcast entries, read deliveries in total order, watch primary views.

    group = await Group.join(Options(name="b", key=key, listen=("127.0.0.1:0",), contacts=("127.0.0.1:7000",)))
    result = await group.broadcast(b"entry")      # the state machine's result, once every member has the entry
    async for event in group.deliveries(): ...    # only without a state machine of your own
    await group.leave()

Below: driver.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING

import msgspec

from cluster.durable import founding_image
from cluster.layer import Delivered
from cluster.names import ProcessId
from cluster.runtime.api.delivery_stream import DeliveryStream, Event
from cluster.runtime.api.primary_view_events import PrimaryViewEvents
from cluster.runtime.disk.memory_store import MemoryStore
from cluster.runtime.disk.store import Purpose, Store
from cluster.runtime.driver import Driver
from cluster.runtime.fatal_errors import StateDiverged
from cluster.runtime.net.founding_check import refuse_if_founded
from cluster.submission_index import NO_TICKET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from cluster.layer import Diverged, Outvoted
    from cluster.names import View
    from cluster.replica import StateMachine
    from cluster.runtime.api.data_service import DataQueries
    from cluster.runtime.api.interim_service import InterimService
    from cluster.runtime.api.options import Options
    from cluster.runtime.api.reports import Reports
    from cluster.runtime.disk.memory_store import AnyStore
    from cluster.runtime.disk.rows import Recovery
    from cluster.runtime.submissions import Handle

IN_DOUBT = "in doubt: "

log = logging.getLogger("cluster.group")


class NotDelivered(Exception):
    """The entry will not be in the order; the message says why. No member has seen it."""


class InDoubt(Exception):
    """This member stopped before the outcome of the entry was known: other members may deliver it."""


class Full(Exception):
    """Too many outstanding entries."""


class Group:
    """A member of a group. Made by `found` or `join`."""

    def __init__(
        self,
        options: Options,
        me: ProcessId,
        store: AnyStore,
        machine: StateMachine | None,
        founder: bool,
        interim: InterimService | None = None,
        queries: DataQueries | None = None,
        reports: Reports | None = None,
    ) -> None:
        self.options = options
        self.me = me
        self.feed = DeliveryStream(options.bounds.deliveries_len_max) if machine is None else None
        self.machine: StateMachine = machine if machine is not None else self.feed  # type: ignore[assignment]
        self.primary_events = PrimaryViewEvents()
        self.stopped = asyncio.Event()  # set when the member failed or was closed
        self.error: BaseException | None = None  # why this member failed
        self.diverged_count = 0
        self.driver = Driver(
            options, me, store, self.machine, self, founder=founder, interim=interim, queries=queries,
            reports=reports, order_log=options.order_log, trace=options.trace,
        )  # fmt: skip
        self.interim = interim
        self.reports = reports
        self.services = [service for service in (interim, queries) if service is not None]
        for service in self.services:
            service.attach(self.driver)
        self._room: list[asyncio.Future[None]] = []
        self._open = True
        self._closed = False
        self._entry_max = options.bounds.entry_len_max
        self._len_max = options.bounds.outstanding_len_max
        self._bytes_max = options.bounds.outstanding_bytes_max

    # ---- start

    @classmethod
    async def found(
        cls,
        options: Options,
        machine: StateMachine | None = None,
        *,
        interim: InterimService | None = None,
        queries: DataQueries | None = None,
        reports: Reports | None = None,
    ) -> Group:
        """Found a group with this process as its first and only member. Once in the life of a cluster.

        Raises AlreadyFounded if one of `options.contacts` is a member of this cluster, and a StoreError if the data
        directory belongs to a member already: that member continues with `join`. Contacts that do not answer are
        skipped: they may start later.
        """
        options.validate()
        me = ProcessId(options.name, secrets.randbits(32) or 1)
        await refuse_if_founded(options, me)
        store: AnyStore = MemoryStore(founding_image(me), secrets.token_hex(16))
        if options.data is not None:
            store = disk = Store.open(
                options.data, create_for=Purpose.FOUNDING, name=options.name, cluster_id=options.cluster
            )
            me = disk.me
        return await cls._begin(options, me, store, machine, interim, queries, reports, founder=True)

    @classmethod
    async def join(
        cls,
        options: Options,
        machine: StateMachine | None = None,
        *,
        interim: InterimService | None = None,
        queries: DataQueries | None = None,
        reports: Reports | None = None,
    ) -> Group:
        """Join a group, or resume membership from disk. Retries for ever; never founds a group."""
        options.validate()
        me = ProcessId(options.name, secrets.randbits(32) or 1)
        store: AnyStore = MemoryStore()
        if options.data is not None:
            store = disk = Store.open(
                options.data, create_for=Purpose.JOINING, name=options.name, cluster_id=options.cluster
            )
            me = disk.me
        if not options.contacts and store.load().boot == 0:
            store.close()
            raise ValueError("options.contacts is empty: a process that joins needs the address of a member")
        return await cls._begin(options, me, store, machine, interim, queries, reports, founder=False)

    @classmethod
    async def _begin(
        cls,
        options: Options,
        me: ProcessId,
        store: AnyStore,
        machine: StateMachine | None,
        interim: InterimService | None = None,
        queries: DataQueries | None = None,
        reports: Reports | None = None,
        *,
        founder: bool,
    ) -> Group:
        group = cls(options, me, store, machine, founder, interim, queries, reports)
        for recovery in group.recoveries:
            log.warning("this group was recovered without a majority, and may have lost entries, %s", recovery)
        try:
            await group.driver.start()
        except BaseException:
            await group.close()
            raise
        return group

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses at which this member can be reached."""
        return self.driver.transport.addresses

    def need(self, language: int) -> None:
        """From now on accept only peers whose state machine reads this language version (`Dialect`)."""
        transport = self.driver.transport
        transport.dialect = msgspec.structs.replace(transport.dialect, needs=language)

    # ---- submissions

    async def broadcast(self, entry: bytes) -> object:
        """Add an entry to the total order. Returns the local state machine's result once every member has the entry.

        Waits while too many entries are outstanding. Raises NotDelivered if the entry will never be delivered. If the
        caller is cancelled, the entry is withdrawn if that is still possible.
        """
        while not self._has_room(entry):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(waiter)
            await waiter
        end: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.driver.submit(entry, end)
        try:
            return await end
        except asyncio.CancelledError:
            self.driver.withdraw(end)
            raise

    def broadcast_nowait(self, entry: bytes, done: Callable[[Delivered], None] | None = None) -> None:
        """Like `broadcast`, with a callback: `done` gets the outcome. Raises Full where `broadcast` would wait.

        If this member stops before the outcome is known, the `reason` that `done` gets begins with `IN_DOUBT`.
        """
        own = self.driver.submissions
        if (
            self._open
            and own.outstanding < self._len_max
            and own.outstanding_bytes + len(entry) <= self._bytes_max
            and len(entry) <= self._entry_max
        ) or self._has_room(entry):
            self.driver.submit(entry, done)
        else:
            raise Full(f"{own.outstanding} entries of this member are outstanding; wait until some of them complete")

    def _has_room(self, entry: bytes) -> bool:
        if not self._open:
            raise NotDelivered(f"this member is {'closed' if self.error is None else f'stopped: {self.error}'}")
        if len(entry) > self._entry_max:
            raise ValueError(f"the entry has {len(entry)} bytes; at most {self._entry_max} are allowed")
        own = self.driver.submissions
        return own.outstanding == 0 or (
            own.outstanding < self._len_max and own.outstanding_bytes + len(entry) <= self._bytes_max
        )

    def on_ended(self, future: asyncio.Future[object], effect: Delivered) -> None:
        if future.done():
            return
        if effect.delivered:
            future.set_result(effect.result)
        else:
            future.set_exception(NotDelivered(effect.reason))

    def on_room(self) -> None:
        """A batch completed: wake the callers that wait for capacity."""
        room, self._room = self._room, []
        for waiter in room:
            if not waiter.done():
                waiter.set_result(None)

    # ---- observation

    def deliveries(self) -> AsyncIterator[Event]:
        """Entries and primary views in order. Only for a group without its own state machine."""
        if self.feed is None:
            raise TypeError("the deliveries of this group go to its state machine")
        return self.feed.take()

    @property
    def primary(self) -> View | None:
        """The primary view that this process is in now, or None."""
        return self.primary_events.view

    @property
    def is_catching_up(self) -> bool:
        """Whether this process is in a primary view but has not yet received the state or stored it on disk."""
        process = self.driver.process
        return self.primary is None and self.error is None and process.primary.is_primary

    def views(self) -> AsyncIterator[View | None]:
        """Yields the current primary view (or None), then each change."""
        return self.primary_events.changes()

    def on_primary(self, callback: Callable[[View | None], None]) -> None:
        """Call `callback` at each change of the primary view: with the view, or with None when it was lost.

        The callback runs inside the member. If it raises, the member stops; if it is slow, the member is slow.
        """
        self.primary_events.on_change(callback)

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """Recoveries without a majority (`python -m cluster recover`). Every member knows them, for ever."""
        return self.driver.transport.recoveries

    @property
    def position(self) -> int:
        """The next position to apply here: everything below it is applied."""
        return self.driver.process.total_order.next_report

    async def primary_of(self, count: int) -> View:
        """Wait until this process is in a primary view of `count` members."""
        while self.primary is None or len(self.primary.members) != count:
            if self.error is not None:
                raise self.error
            await self.primary_events.changed.wait()
        return self.primary

    def on_primary_changed(self, view: View | None) -> None:
        self.primary_events.publish(view)

    def on_diverged(self, effect: Diverged) -> None:
        self.diverged_count += 1
        log.critical(
            "the state digest of %s at position %d is %s, the own digest was %s: one of the two replicas is wrong",
            effect.process, effect.position, effect.theirs, effect.ours,
        )  # fmt: skip

    def on_outvoted(self, effect: Outvoted) -> StateDiverged:
        return StateDiverged(
            f"the state of this replica at position {effect.position} is {effect.ours}, but the one that counts is "
            f"{effect.theirs}, which {' '.join(map(str, effect.kept))} have. Its answers may have been wrong. Start it "
            "with an empty directory: it joins as a new process and gets its state from the others"
        )

    # ---- stop

    async def __aenter__(self) -> Group:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def on_failed(self, error: BaseException) -> None:
        self.error = error
        self._open = False
        self.primary_events.close()
        self._abandon(f"this member stopped: {error}")

    async def leave(self, within_s: float = 5.0) -> None:
        """Leave for good: wait for outstanding entries, announce the departure, then close."""
        self.driver.leave()
        try:
            async with asyncio.timeout(within_s):
                while self.driver.submissions.outstanding and self.error is None:
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._room.append(waiter)
                    await waiter
        except TimeoutError:
            log.warning("leaving with %d entries whose outcome is unknown", self.driver.submissions.outstanding)
        self.driver.leave()
        await self.close()

    async def close(self) -> None:
        """Stop. A member with a disk resumes from it when it starts again."""
        if self._closed:
            return
        self._closed, self._open = True, False
        await self.driver.close()
        self.primary_events.close()
        self._abandon("this member was closed")

    def _abandon(self, why: str) -> None:
        unsent, in_doubt = self.driver.submissions.abandon()
        for handle in unsent:
            self._abandon_one(handle, NotDelivered(why), why)
        for handle in in_doubt:
            self._abandon_one(handle, InDoubt(why), IN_DOUBT + why)
        self.on_room()
        for service in self.services:
            service.detach(self.driver, why)
        if self.reports is not None and self.driver.transport.report_streams is not None:
            self.reports.detach(self.driver.transport.report_streams)
        if self.feed is not None:
            self.feed.close()
        self.stopped.set()

    def _abandon_one(self, handle: Handle, error: Exception, reason: str) -> None:
        if isinstance(handle, asyncio.Future):
            if not handle.done():
                handle.set_exception(error)
                handle.exception()  # mark the exception as retrieved
        elif handle is not None:
            try:
                handle(Delivered(NO_TICKET, False, -1, reason, None))
            except Exception:
                log.exception("the completion callback of an entry raised")
