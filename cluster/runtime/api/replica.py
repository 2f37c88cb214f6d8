"""Replicated state machine API: every member applies the same entries in the same order and returns the same results.

    replica = await Replica.join(options, machine)     # or Replica.found(options, machine), once in a cluster's life
    result = await replica.submit(b"entry")            # the result of the local `apply`, once every member has it
    replica.submit_nowait(b"entry", done)              # the same with a callback instead of a future
    replica.primary, replica.position, replica.digest()
    await replica.leave()                              # for good; close() only stops

A replica adds one thing to a group: it restarts when its state diverges from the others (`cluster/divergence.py`
decides whose state counts). The divergence is logged and counted. The replica stops, moves its disk aside, joins as a
new process, and takes a snapshot from another member. Its own outstanding entries are in doubt.
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
    from cluster.runtime.api.data_service import DataQueries
    from cluster.runtime.api.interim_service import InterimService
    from cluster.runtime.api.options import Options
    from cluster.runtime.api.reports import Reports
    from cluster.runtime.disk.rows import Recovery

log = logging.getLogger("cluster.replica")


class Replica:
    """A replica of a state machine. Made by `found` or `join`."""

    def __init__(
        self,
        options: Options,
        machine: StateMachine,
        group: Group,
        empty: bytes,
        interim: InterimService | None = None,
        queries: DataQueries | None = None,
        reports: Reports | None = None,
    ) -> None:
        self.options = options
        self.machine = machine
        self.interim = interim
        self._queries = queries
        self.reports = reports
        self.group = group  # replaced at each restart
        self.restarts = 0  # restarts because of divergence
        self.error: BaseException | None = None  # why this replica failed
        self._empty = empty  # snapshot of the machine before the first entry
        self._primary_events = PrimaryViewEvents()
        self._closing = False
        self._running = asyncio.Event()
        self._adopt(group)
        self._guard = asyncio.get_running_loop().create_task(self._restart_on_divergence())

    @classmethod
    async def found(
        cls,
        options: Options,
        machine: StateMachine,
        *,
        interim: InterimService | None = None,
        queries: DataQueries | None = None,
        reports: Reports | None = None,
    ) -> Replica:
        """Found a group with this replica as its only member. Once in the life of a cluster."""
        empty = machine.snapshot()
        group = await Group.found(options, machine, interim=interim, queries=queries, reports=reports)
        return cls(options, machine, group, empty, interim, queries, reports)

    @classmethod
    async def join(
        cls,
        options: Options,
        machine: StateMachine,
        *,
        interim: InterimService | None = None,
        queries: DataQueries | None = None,
        reports: Reports | None = None,
    ) -> Replica:
        """Join a group, or resume from disk. Retries for ever; never founds a group. `machine` must be unused."""
        empty = machine.snapshot()
        group = await Group.join(options, machine, interim=interim, queries=queries, reports=reports)
        return cls(options, machine, group, empty, interim, queries, reports)

    # ---- submissions

    async def submit(self, body: bytes) -> object:
        """Apply an entry at every member. Returns the result of the local `apply` once every member has the entry.

        Waits for capacity and for a primary view. Raises `NotDelivered` if the entry will never be applied, `InDoubt`
        if this replica stopped before that was known. If the caller is cancelled, the entry is withdrawn if that is
        still possible.
        """
        await self._running.wait()
        return await self.group.broadcast(body)

    def submit_nowait(self, body: bytes, done: Callable[[Delivered], None] | None = None) -> None:
        """Like `submit`, with a callback: `done` gets the outcome. Raises `Full` where `submit` would wait.

        Raises `NotDelivered` while this replica restarts.
        """
        self.group.broadcast_nowait(body, done)

    # ---- observation

    @property
    def me(self) -> ProcessId:
        return self.group.me

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses at which this member can be reached."""
        return self.group.addresses

    @property
    def primary(self) -> View | None:
        """The primary view that this replica is in now, or None. Outside a primary view nothing is applied."""
        return self._primary_events.view

    @property
    def position(self) -> int:
        """The next position to apply here: everything below it is applied."""
        return self.group.position

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """Recoveries without a majority."""
        return self.group.recoveries

    def digest(self) -> str:
        """Digest of the machine's state. Equal at all replicas at the same position."""
        return blake2b(self.machine.snapshot(), digest_size=16).hexdigest()

    def views(self) -> AsyncIterator[View | None]:
        """Yields the current primary view (or None), then each change."""
        return self._primary_events.changes()

    def on_primary(self, callback: Callable[[View | None], None]) -> None:
        """Call `callback` at each change of the primary view: with the view, or with None when it was lost.

        The callback runs inside the member. If it raises, the member stops; if it is slow, the member is slow.
        """
        self._primary_events.on_change(callback)

    async def primary_of(self, count: int) -> View:
        """Wait until this replica is in a primary view of `count` members."""
        while self.primary is None or len(self.primary.members) != count:
            if self._primary_events.closed:
                raise self.error or ConnectionError("this replica was closed")
            await self._primary_events.changed.wait()
        return self.primary

    # ---- restart after divergence

    def _adopt(self, group: Group) -> None:
        self.group = group
        group.on_primary(self._primary_events.publish)
        if group.primary is not None:
            self._primary_events.publish(group.primary)
        self._running.set()

    async def _restart_on_divergence(self) -> None:
        """Restart the replica whenever its state has diverged."""
        while True:
            await self.group.stopped.wait()
            if self._closing:
                return
            if not isinstance(self.group.error, StateDiverged):
                self._stopped(self.group.error)
                return
            self._running.clear()
            try:
                await self._restart()
            except Exception as error:
                log.critical("this replica could not restart: %s", error)
                self._stopped(error)
                return

    async def _restart(self) -> None:
        old = self.group
        log.critical("%s restarts with an empty state: %s", old.me, old.error)
        await old.close()
        if self.options.data is not None:
            aside = await asyncio.to_thread(database_file.set_aside, self.options.data)
            log.critical("the data with the diverged state was moved to %s", aside)
        self.machine.restore(self._empty)
        self.restarts += 1
        contacts = dict.fromkeys((*self.options.contacts, *old.driver.transport.book.addresses))
        options = msgspec.structs.replace(self.options, contacts=tuple(contacts))
        self._adopt(
            await Group.join(options, self.machine, interim=self.interim, queries=self._queries, reports=self.reports)
        )
        log.critical("%s is now %s and waits for the state of the other members", old.me, self.group.me)

    def _stopped(self, error: BaseException | None) -> None:
        self.error = error
        self._primary_events.close()
        self._running.set()  # waiting callers get their error from the group

    # ---- stop

    async def __aenter__(self) -> Replica:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def leave(self, within_s: float = 5.0) -> None:
        """Leave for good: wait for outstanding entries, then announce the departure."""
        self._closing = True
        await self.group.leave(within_s)
        await self.close()

    async def close(self) -> None:
        """Stop. A replica with a disk resumes from it when it starts again."""
        self._closing = True
        self._guard.cancel()
        await asyncio.gather(self._guard, return_exceptions=True)
        await self.group.close()
        self._stopped(self.error)
