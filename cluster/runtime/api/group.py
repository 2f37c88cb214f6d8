"""A member of a group: founds or joins it, broadcasts entries, sees them delivered in order, knows the primary view.

    group = await Group.join(Options(name="b", key=key, listen=("127.0.0.1:0",), contacts=("127.0.0.1:7000",)))
    result = await group.broadcast(b"entry")      # what the state machine answered, once every member has the entry
    async for event in group.deliveries(): ...    # without a state machine of one's own
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
    from cluster.runtime.api.options import Options
    from cluster.runtime.disk.memory_store import AnyStore
    from cluster.runtime.disk.rows import Recovery
    from cluster.runtime.submissions import Handle

IN_DOUBT = "in doubt: "

log = logging.getLogger("cluster.group")


class NotDelivered(Exception):
    """An entry that will not be in the order, and why. Nobody has seen it."""


class InDoubt(Exception):
    """This member stopped before the end of an entry was known: it may be delivered by others."""


class Full(Exception):
    """As many entries as allowed are waiting for their end."""


class Group:
    def __init__(self, options: Options, me: ProcessId, store: AnyStore, machine: StateMachine | None, founder: bool):
        self.options = options
        self.me = me
        self.feed = DeliveryStream(options.bounds.deliveries_len_max) if machine is None else None
        self.machine: StateMachine = machine if machine is not None else self.feed  # type: ignore[assignment]
        self.news = PrimaryViewEvents()
        self.stopped = asyncio.Event()  # by itself, or closed
        self.error: BaseException | None = None  # why this member stopped by itself
        self.diverged_count = 0
        self.driver = Driver(
            options, me, store, self.machine, self, founder=founder, order_log=options.order_log, trace=options.trace
        )
        self._room: list[asyncio.Future[None]] = []
        self._open = True
        self._closed = False
        self._entry_max = options.bounds.entry_len_max
        self._len_max = options.bounds.outstanding_len_max
        self._bytes_max = options.bounds.outstanding_bytes_max

    # ---- beginning

    @classmethod
    async def found(cls, options: Options, machine: StateMachine | None = None) -> Group:
        """Found a group, with this process as its first and only member. Once in the life of a cluster.

        Raises AlreadyFounded where one of `options.contacts` is a member of a group of this cluster, and a StoreError
        where the disk is one already: a member goes on from its disk with `join`. Contacts that do not answer are not
        waited for: they may be started later.
        """
        options.judge()
        me = ProcessId(options.name, secrets.randbits(32) or 1)
        await refuse_if_founded(options, me)
        store: AnyStore = MemoryStore(founding_image(me), secrets.token_hex(16))
        if options.data is not None:
            store = disk = Store.open(
                options.data, create_for=Purpose.FOUNDING, name=options.name, cluster_id=options.cluster
            )
            me = disk.me
        return await cls._begin(options, me, store, machine, founder=True)

    @classmethod
    async def join(cls, options: Options, machine: StateMachine | None = None) -> Group:
        """Join a group, or go on in it from a disk. Tries for ever, and never founds one."""
        options.judge()
        me = ProcessId(options.name, secrets.randbits(32) or 1)
        store: AnyStore = MemoryStore()
        if options.data is not None:
            store = disk = Store.open(
                options.data, create_for=Purpose.JOINING, name=options.name, cluster_id=options.cluster
            )
            me = disk.me
        if not options.contacts and store.load().boot == 0:
            store.close()
            raise ValueError("a process that joins needs the address of a member: options.contacts is empty")
        return await cls._begin(options, me, store, machine, founder=False)

    @classmethod
    async def _begin(
        cls, options: Options, me: ProcessId, store: AnyStore, machine: StateMachine | None, *, founder: bool
    ) -> Group:
        group = cls(options, me, store, machine, founder)
        for recovery in group.recoveries:
            log.warning("this group was recovered without a majority, and may have lost entries: %s", recovery)
        try:
            await group.driver.start()
        except BaseException:
            await group.close()
            raise
        return group

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where this member can be reached."""
        return self.driver.transport.addresses

    def need(self, language: int) -> None:
        """From now on let in only those whose state machine understands this (`Dialect`)."""
        transport = self.driver.transport
        transport.dialect = msgspec.structs.replace(transport.dialect, needs=language)

    # ---- submissions

    async def broadcast(self, entry: bytes) -> object:
        """Put an entry into the total order: what the state machine answered here, when every member has it.

        Waits for room where too much is on its way. Raises NotDelivered if the entry will never be delivered. When the
        caller gives up, the entry is taken back where that is still possible.
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
        """The same without a future: `done` is called with the end. Raises Full where `broadcast` would wait.

        When this member stops before an end is known, the `reason` of what `done` gets begins with `IN_DOUBT`.
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
            raise Full(f"{own.outstanding} entries of this member have no end yet; wait for some of them")

    def _has_room(self, entry: bytes) -> bool:
        if not self._open:
            raise NotDelivered(f"this member is {'closed' if self.error is None else f'stopped: {self.error}'}")
        if len(entry) > self._entry_max:
            raise ValueError(f"an entry of {len(entry)} bytes; at most {self._entry_max} are taken")
        own = self.driver.submissions
        return own.outstanding == 0 or (
            own.outstanding < self._len_max and own.outstanding_bytes + len(entry) <= self._bytes_max
        )

    def ended(self, future: asyncio.Future[object], effect: Delivered) -> None:
        if future.done():
            return
        if effect.delivered:
            future.set_result(effect.result)
        else:
            future.set_exception(NotDelivered(effect.reason))

    def roomy(self) -> None:
        """A batch has ended: those who wait for room may look again."""
        room, self._room = self._room, []
        for waiter in room:
            if not waiter.done():
                waiter.set_result(None)

    # ---- what is seen

    def deliveries(self) -> AsyncIterator[Event]:
        """Entries and primary views in their order. For a group without a state machine of its own."""
        if self.feed is None:
            raise TypeError("the deliveries of this group go to its state machine")
        return self.feed.take()

    @property
    def primary(self) -> View | None:
        """The primary view this process is in now."""
        return self.news.view

    @property
    def is_catching_up(self) -> bool:
        """In a view that is primary, but without the state of the others yet, or without having it on disk."""
        process = self.driver.process
        return self.primary is None and self.error is None and process.primary.is_primary

    def views(self) -> AsyncIterator[View | None]:
        """The primary view this process is in, or None; then each change of it."""
        return self.news.one_by_one()

    def on_primary(self, callback: Callable[[View | None], None]) -> None:
        """Call this at each change of the primary view, at once: with the view, or with None when it was lost.

        It is called inside the work of the member. One that raises stops the member; one that is slow makes it slow.
        """
        self.news.on_change(callback)

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """When an operator went on without a majority: `python -m cluster recover`. All members know, for ever."""
        return self.driver.transport.recoveries

    @property
    def position(self) -> int:
        """How far the total order was applied here: everything below this position."""
        return self.driver.process.total_order.next_report

    async def primary_of(self, count: int) -> View:
        """Wait until this process is in a primary view of so many members."""
        while self.primary is None or len(self.primary.members) != count:
            if self.error is not None:
                raise self.error
            await self.news.changed.wait()
        return self.primary

    def primary_changed(self, view: View | None) -> None:
        self.news.tell(view)

    def diverged(self, effect: Diverged) -> None:
        self.diverged_count += 1
        log.critical(
            "the state of %s at position %d is %s, ours was %s: one of the two replicas is wrong",
            effect.process, effect.position, effect.theirs, effect.ours,
        )  # fmt: skip

    def outvoted(self, effect: Outvoted) -> StateDiverged:
        return StateDiverged(
            f"the state of this replica at position {effect.position} is {effect.ours}, but the one that counts is "
            f"{effect.theirs}, which {' '.join(map(str, effect.kept))} have. Its answers may have been wrong. Start it "
            "with an empty directory: it joins as a new process and gets its state from the others"
        )

    # ---- ending

    async def __aenter__(self) -> Group:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def failed(self, error: BaseException) -> None:
        self.error = error
        self._open = False
        self.news.close()
        self._abandon(f"this member stopped: {error}")

    async def leave(self, within_s: float = 5.0) -> None:
        """Go for good: what was submitted comes to its end, then the others are told. Closes the group."""
        self.driver.leave()
        try:
            async with asyncio.timeout(within_s):
                while self.driver.submissions.outstanding and self.error is None:
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._room.append(waiter)
                    await waiter
        except TimeoutError:
            log.warning("leaves with %d entries whose end is not known", self.driver.submissions.outstanding)
        self.driver.leave()
        await self.close()

    async def close(self) -> None:
        """Stop. A member with a disk goes on from it when it is started again."""
        if self._closed:
            return
        self._closed, self._open = True, False
        await self.driver.close()
        self.news.close()
        self._abandon("this member was closed")

    def _abandon(self, why: str) -> None:
        unsent, in_doubt = self.driver.submissions.abandon()
        for handle in unsent:
            self._abandon_one(handle, NotDelivered(why), why)
        for handle in in_doubt:
            self._abandon_one(handle, InDoubt(why), IN_DOUBT + why)
        self.roomy()
        if self.feed is not None:
            self.feed.close()
        self.stopped.set()

    def _abandon_one(self, handle: Handle, error: Exception, reason: str) -> None:
        if isinstance(handle, asyncio.Future):
            if not handle.done():
                handle.set_exception(error)
                handle.exception()  # nobody has to ask
        elif handle is not None:
            try:
                handle(Delivered(NO_TICKET, False, -1, reason, None))
            except Exception:
                log.exception("a callback that was told of the end of its entry failed")
