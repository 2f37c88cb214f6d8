"""A replicated state machine: every member applies the same entries in the same order, and answers alike.

    replica = await Replica.join(options, machine)     # or Replica.found(options, machine), once in a cluster's life
    answer = await replica.submit(b"entry")            # what `machine.apply` returned here, once every member has it
    replica.submit_nowait(b"entry", done)              # the same with a call instead of a future
    replica.primary, replica.position, replica.digest()
    await replica.leave()                              # for good; close() only stops

What it adds to a group: a replica whose state is not that of the others (`cluster/divergence.py` says whose counts)
says so in the log and in the figures, and starts anew. It stops, puts its disk aside, joins as a process that nobody
knows, and takes a snapshot of another member. Its own entries that had no end then are in doubt.
Below: group.  The layer of the stack that applies the order is `cluster.replica.ReplicaLayer`.
"""

from __future__ import annotations

import asyncio
import logging
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from cluster.runtime.api.group import Group
from cluster.runtime.api.primary_view_events import PrimaryViewEvents
from cluster.runtime.disk import database_file
from cluster.runtime.fatal_errors import StateDiverged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from cluster.layer import Delivered
    from cluster.names import ProcessId, View
    from cluster.replica import StateMachine
    from cluster.runtime.api.options import Options
    from cluster.runtime.disk.rows import Recovery

log = logging.getLogger("cluster.replica")


class Replica:
    """Made by `found` or `join`."""

    def __init__(self, options: Options, machine: StateMachine, group: Group, empty: bytes) -> None:
        self.options = options
        self.machine = machine
        self.group = group  # another one after each new start
        self.restarts = 0  # how often the state was given up
        self.error: BaseException | None = None  # why this replica stopped by itself
        self._empty = empty  # the state of the machine before the first entry
        self._news = PrimaryViewEvents()
        self._closing = False
        self._running = asyncio.Event()
        self._adopt(group)
        self._guard = asyncio.get_running_loop().create_task(self._guarded())

    @classmethod
    async def found(cls, options: Options, machine: StateMachine) -> Replica:
        """Found a group, with this replica as its only member. Once in the life of a cluster."""
        empty = machine.snapshot()
        return cls(options, machine, await Group.found(options, machine), empty)

    @classmethod
    async def join(cls, options: Options, machine: StateMachine) -> Replica:
        """Join a group, or go on in it from a disk. Tries for ever, and never founds one. `machine` is as made."""
        empty = machine.snapshot()
        return cls(options, machine, await Group.join(options, machine), empty)

    # ---- submissions

    async def submit(self, body: bytes) -> object:
        """Apply this everywhere: what `machine.apply` returned here, when every member has the entry.

        Waits for room, and for a primary view. Raises `NotDelivered` if it will never be applied, `InDoubt` if this
        replica stopped before that was known. When the caller gives up, it is taken back where that is still possible.
        """
        await self._running.wait()
        return await self.group.broadcast(body)

    def submit_nowait(self, body: bytes, done: Callable[[Delivered], None] | None = None) -> None:
        """The same without a future: `done` is called with the end. Raises `Full` where `submit` would wait for room.

        Raises `NotDelivered` while this replica starts anew.
        """
        self.group.broadcast_nowait(body, done)

    # ---- what is seen

    @property
    def me(self) -> ProcessId:
        return self.group.me

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where this member can be reached."""
        return self.group.addresses

    @property
    def primary(self) -> View | None:
        """The primary view this replica is in now. Outside one nothing is applied."""
        return self._news.view

    @property
    def position(self) -> int:
        """How far the order was applied here: everything below this position."""
        return self.group.position

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """When an operator went on without a majority."""
        return self.group.recoveries

    def digest(self) -> str:
        """Of the state of the machine. Equal at all replicas that are at the same position."""
        return blake2b(self.machine.snapshot(), digest_size=16).hexdigest()

    def views(self) -> AsyncIterator[View | None]:
        """The primary view this replica is in, or None; then each change of it."""
        return self._news.one_by_one()

    def on_primary(self, callback: Callable[[View | None], None]) -> None:
        """Call this at each change of the primary view, at once: with the view, or with None when it was lost.

        It is called inside the work of the member. One that raises stops the member; one that is slow makes it slow.
        """
        self._news.on_change(callback)

    async def primary_of(self, count: int) -> View:
        """Wait until this replica is in a primary view of so many members."""
        while self.primary is None or len(self.primary.members) != count:
            if self._news.closed:
                raise self.error or ConnectionError("this replica was closed")
            await self._news.changed.wait()
        return self.primary

    # ---- starting anew

    def _adopt(self, group: Group) -> None:
        self.group = group
        group.on_primary(self._news.tell)
        if group.primary is not None:
            self._news.tell(group.primary)
        self._running.set()

    async def _guarded(self) -> None:
        """See to it that a replica whose state is wrong gets another one."""
        while True:
            await self.group.stopped.wait()
            if self._closing:
                return
            if not isinstance(self.group.error, StateDiverged):
                self._stopped(self.group.error)
                return
            self._running.clear()
            try:
                await self._start_anew()
            except Exception as error:
                log.critical("this replica could not start anew: %s", error)
                self._stopped(error)
                return

    async def _start_anew(self) -> None:
        old = self.group
        log.critical("%s starts anew: %s", old.me, old.error)
        await old.close()
        if self.options.data is not None:
            aside = await asyncio.to_thread(database_file.set_aside, self.options.data)
            log.critical("the disk with the wrong state was moved to %s", aside)
        self.machine.restore(self._empty)
        self.restarts += 1
        contacts = dict.fromkeys((*self.options.contacts, *old.driver.transport.book.addresses))
        self._adopt(await Group.join(msgspec.structs.replace(self.options, contacts=tuple(contacts)), self.machine))
        log.critical("%s is %s now, and waits for the state of the others", old.me, self.group.me)

    def _stopped(self, error: BaseException | None) -> None:
        self.error = error
        self._news.close()
        self._running.set()  # who waits is told by the group

    # ---- ending

    async def __aenter__(self) -> Replica:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def leave(self, within_s: float = 5.0) -> None:
        """Go for good: what was submitted comes to its end, then the others are told."""
        self._closing = True
        await self.group.leave(within_s)
        await self.close()

    async def close(self) -> None:
        """Stop. A replica with a disk goes on from it when it is started again."""
        self._closing = True
        self._guard.cancel()
        await asyncio.gather(self._guard, return_exceptions=True)
        await self.group.close()
        self._stopped(self.error)
