"""Data service API: a replicated state machine whose queries are shared among the members, in every partition.

    service = await DataService.join(options, machine)      # or found; machine: a `StateMachine` with `query`
    reply = await service.update(b"update")                 # needs a primary view; reply.result, reply.index
    reply = await service.query(b"query", seen=reply.index) # answered by any member, from the state at reply.index

An update is an entry of the total order. A query is answered by one member of the current view, primary or not: by
turns, or by the least loaded one. `seen` is an index from an earlier reply: the answer is never from an older state. A
client that brings it may go to any member.
Below: replica, driver; reports carry the loads of the members.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import msgspec

from cluster.data.replica import LEAST_LOADED, Queryable
from cluster.replica import StateMachine
from cluster.reports.publisher import ReportsFull
from cluster.runtime.api.attached_service import AttachedService
from cluster.runtime.api.group import Full, NotDelivered
from cluster.runtime.api.replica import Replica
from cluster.runtime.api.reports import Reports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.layer import LoadChanged, QueryAnswered
    from cluster.names import ProcessId, View
    from cluster.runtime.api.options import Options
    from cluster.runtime.api.reports import ReportChange

ROUND_ROBIN = "round robin"
OUTSTANDING_MAX = 4096  # queries of this member without an answer
QUERY_BYTES_MAX = 64 * 1024
LOAD = "queries"  # the item of the reports
U32_MAX = (1 << 32) - 1
_LOAD = struct.Struct("!II")  # queries that wait, mean time for one in us


class QueryFailed(Exception):
    """The query raised an exception in the state machine; the message has its name and text."""


class QueryableMachine(StateMachine, Queryable, Protocol):
    """A state machine that answers queries.

    `query` runs in the event loop of the member, between other work: it must not change the state, and should take at
    most some milliseconds.
    """


class DataResult(msgspec.Struct, frozen=True):
    """The result of an update or query, and the index of the state that it shows: what its client has seen."""

    result: object
    index: int


class _IndexedMachine:
    """The state machine of the application, whose results become replies with their index."""

    def __init__(self, machine: QueryableMachine) -> None:
        self.query = machine.query
        self.view_changed = machine.view_changed
        self.snapshot = machine.snapshot
        self.restore = machine.restore
        self._apply_all = getattr(machine, "apply_all", None)
        self._apply = machine.apply

    def apply(self, position: int, origin: ProcessId, body: bytes) -> DataResult:
        return DataResult(self._apply(position, origin, body), position + 1)

    def apply_all(self, position: int, origin: ProcessId, bodies: Sequence[bytes]) -> Sequence[DataResult]:
        if self._apply_all is None:
            return [self.apply(at, origin, body) for at, body in enumerate(bodies, position)]
        results = self._apply_all(position, origin, bodies)
        return [DataResult(result, at) for at, result in enumerate(results, position + 1)]


class DataQueries(AttachedService):
    """The queries of one member that wait for their answers."""

    def __init__(self, machine: QueryableMachine, reports: Reports | None = None) -> None:
        """`reports` carry the loads of members that share queries by load. Nothing else reads their changes."""
        super().__init__()
        self.machine = machine
        self.reports = reports
        if reports is not None:
            reports.on_change(self._on_report)

    @property
    def outstanding(self) -> int:
        """Queries without an answer, also those that nobody waits for any more."""
        return len(self._driver.process.data.map) if self._driver is not None and self._driver.process.data else 0

    @property
    def executed(self) -> int:
        """Queries that this member has executed, for itself and for others, since it started."""
        return self._driver.process.data.executed if self._driver is not None and self._driver.process.data else 0

    def on_load_changed(self, load: LoadChanged) -> None:
        """This member reports its load. Members that cannot get it now get a later one."""
        if self.reports is not None:
            with suppress(NotDelivered, ReportsFull):
                self.reports.publish(LOAD, _LOAD.pack(min(load.waiting, U32_MAX), min(load.service_us, U32_MAX)))

    def _on_report(self, change: ReportChange) -> None:
        driver = self._driver
        if driver is not None and change.item == LOAD and len(change.value) == _LOAD.size:
            driver.load_reported(change.sender, change.age_s, *_LOAD.unpack(change.value))

    async def ask(self, body: bytes, seen: int) -> QueryAnswered:
        driver = self._driver
        if driver is None:
            raise NotDelivered("this member does not run")
        ticket = driver.query(body, seen)
        try:
            return await self.wait_for(ticket)  # type: ignore[return-value]
        except asyncio.CancelledError:
            self._waiting.pop(ticket, None)
            driver.withdraw_query(ticket)
            raise


class DataService:
    """A member of a replicated data service. Made by `found` or `join`."""

    def __init__(self, replica: Replica, queries: DataQueries) -> None:
        self.replica = replica
        self._queries = queries

    @classmethod
    async def found(cls, options: Options, machine: QueryableMachine, *, sharing: str = ROUND_ROBIN) -> DataService:
        """Found a group with this member as its only one. Once in the life of a cluster."""
        queries, indexed = DataQueries(machine, _load_reports(sharing)), _IndexedMachine(machine)
        options = _shared(options, sharing)
        return cls(await Replica.found(options, indexed, queries=queries, reports=queries.reports), queries)

    @classmethod
    async def join(cls, options: Options, machine: QueryableMachine, *, sharing: str = ROUND_ROBIN) -> DataService:
        """Join a group, or resume from disk. Retries for ever; never founds a group. `machine` must be unused.

        `sharing`: "round robin" or "least loaded", for the queries of this member. Only members with "least loaded"
        report their loads, so all should have the same.
        """
        queries, indexed = DataQueries(machine, _load_reports(sharing)), _IndexedMachine(machine)
        options = _shared(options, sharing)
        return cls(await Replica.join(options, indexed, queries=queries, reports=queries.reports), queries)

    async def update(self, body: bytes) -> DataResult:
        """Apply an update at every member. Waits for a primary view. Raises the same errors as `Replica.submit`.

        The result is None if this member got the update inside a snapshot of another one, after a partition.
        """
        reply = await self.replica.submit(body)
        return reply if isinstance(reply, DataResult) else DataResult(None, self.replica.position)

    async def query(self, body: bytes, *, seen: int = 0) -> DataResult:
        """Answer a query from a state at index `seen` or later, in any view.

        Waits while no member of the view has reached that state. Raises `QueryFailed` if the state machine raised an
        exception, `Full` if too many queries wait, and `NotDelivered` if this member stops: a query has no effect, so
        it may be repeated. If the caller is cancelled, the query is withdrawn.
        """
        if len(body) > QUERY_BYTES_MAX:
            raise ValueError(f"the query has {len(body)} bytes; at most {QUERY_BYTES_MAX} are allowed")
        if seen < 0:
            raise ValueError(f"seen is the index of an earlier reply, not {seen}")
        if self._queries.outstanding >= OUTSTANDING_MAX:
            raise Full(f"{self._queries.outstanding} queries of this member wait for their answers")
        answered = await self._queries.ask(body, seen)
        if answered.error:
            raise QueryFailed(answered.error)
        return DataResult(answered.answer, answered.index)

    # ---- observation

    @property
    def me(self) -> ProcessId:
        return self.replica.me

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses at which this member can be reached."""
        return self.replica.addresses

    @property
    def primary(self) -> View | None:
        """The primary view that this member is in now, or None. Outside a primary view, updates wait."""
        return self.replica.primary

    @property
    def index(self) -> int:
        """The index of the state here."""
        return self.replica.position

    @property
    def executed(self) -> int:
        """Queries that this member has executed, for itself and for others."""
        return self._queries.executed

    # ---- stop

    async def __aenter__(self) -> DataService:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def leave(self) -> None:
        """Leave for good."""
        await self.replica.leave()

    async def close(self) -> None:
        """Stop. A member with a disk resumes from it when it starts again."""
        await self.replica.close()


def _load_reports(sharing: str) -> Reports | None:
    return Reports() if sharing == LEAST_LOADED else None


def _shared(options: Options, sharing: str) -> Options:
    if sharing not in (ROUND_ROBIN, LEAST_LOADED):
        raise ValueError(f"queries are shared by {ROUND_ROBIN!r} or {LEAST_LOADED!r}, not {sharing!r}")
    settings = msgspec.structs.replace(options.settings, query_sharing=sharing)
    return msgspec.structs.replace(options, settings=settings)
