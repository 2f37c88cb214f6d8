"""Release order: submits entries to the replicated ledger of releases, and waits until they take effect.

A node without a cluster applies the entries itself and stores the ledger in a file.
Above: `release_service`, `release_keeper`.  Below: `qosweb.releases.ledger`, the cluster's order.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from cluster import Full, InDoubt, NotDelivered, ProcessId
from qosweb.releases.ledger import Activation, Refused, ReleaseLedger, encode_entry, say_refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster import View
    from qosweb.releases.blob_store import BlobStore
    from qosweb.releases.ledger import ReleaseEntry
    from qosweb.server.releases.disk_threads import DiskThreads

SUBMIT_S = 10.0  # how long an entry may take
PREPARE_S = 600.0  # how long the nodes may take to fetch a release
BETWEEN_VIEWS_S = 5.0
STRAGGLER_S = 3.0  # how long a release that a majority holds waits for the other nodes


class ClusterOrder(Protocol):
    """The part of the node's cluster membership that takes entries of the ledger."""

    @property
    def primary(self) -> View | None: ...
    @property
    def me(self) -> ProcessId: ...
    async def submit_release(self, body: bytes) -> object:
        """Apply an entry of the ledger at all nodes. Returns the result at this one."""


class CannotPublish(Exception):
    """The release did not become current; the text says why."""


class ReleaseOrder:
    """The ledger of one node, and the order that changes it."""

    def __init__(
        self,
        blobs: BlobStore,
        name: str,
        members: Callable[[], Sequence[ProcessId]] | None,
        threads: DiskThreads,
        *,
        served: Callable[[], int],
        on_change: Callable[[], None],
    ) -> None:
        """`members`: those of the last primary view in the cluster's order; None: there is no cluster.

        `served`: the number of the release that clients get here. `on_change` is called after a change of the ledger,
        in a later turn of the event loop. Raises OSError.
        """
        self._loop = asyncio.get_running_loop()
        self._blobs = blobs
        self._me = ProcessId(name)
        self.members = members or (lambda: (self._me,))
        self.ledger = ReleaseLedger(self.members, self._changed)
        if members is None:
            self.ledger.restore(blobs.read_ledger())
        self._threads = threads
        self._served = served
        self._on_change = on_change
        self._membership: ClusterOrder | None = None
        self._waiters: list[asyncio.Event] = []  # for a change of the ledger
        self._writing = asyncio.Lock()  # the ledger of a node without a cluster

    def join(self, membership: ClusterOrder) -> None:
        """This node is a member of a cluster, whose order has the ledger."""
        self._membership = membership

    @property
    def is_cut_off(self) -> bool:
        return self._membership is not None and self._membership.primary is None

    @property
    def own_id(self) -> str:
        return str(self._me if self._membership is None else self._membership.me)

    def _changed(self) -> None:
        """The ledger has changed. It calls this while the order is applied: reactions follow in a later turn."""
        self._loop.call_soon(self._react)

    def _react(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.set()
        self._on_change()

    async def submit(self, entry: ReleaseEntry) -> Activation | None:
        """Apply an entry at all nodes. Returns the activation, if it made one. Raises CannotPublish."""
        body = encode_entry(entry)
        if self._membership is None:
            async with self._writing:
                result: object = self.ledger.apply(self._me, body)
                state = self.ledger.snapshot()
                await self._threads.run(lambda: self._blobs.write_ledger(state))
        else:
            try:
                async with asyncio.timeout(SUBMIT_S):
                    result = await self._membership.submit_release(body)
            except (Full, NotDelivered, InDoubt) as error:
                raise CannotPublish(f"the cluster did not take the entry: {error}") from None
            except TimeoutError:
                raise CannotPublish(
                    f"the cluster did not take the entry within {SUBMIT_S:g} s; it may still take effect"
                ) from None
        if isinstance(result, Refused):
            raise CannotPublish(str(result))
        return result if isinstance(result, Activation) else None

    async def await_primary(self, what: str) -> None:
        """Wait for a primary view: between two of them there is a moment without any. Raises CannotPublish."""
        deadline = self._loop.time() + BETWEEN_VIEWS_S
        while self.is_cut_off:
            if self._loop.time() >= deadline:
                raise CannotPublish(
                    f"this node is not in a primary view of its cluster, so it cannot {what} now; it serves release "
                    f"{self._served()} until it is in one again"
                )
            await self._pause(self._news_of_ledger())

    async def await_holders(self, digest: str, before: int, *, force: bool) -> Activation | None:
        """Wait until all nodes hold a release, or a majority does and the others are slow. Raises CannotPublish.

        Returns its activation after `before` if another operator published it meanwhile.
        """
        deadline = self._loop.time() + PREPARE_S
        majority_at: float | None = None
        while True:
            changed = self._news_of_ledger()
            refusals = self.ledger.refusals(digest)
            held, members = len(self.ledger.holders(digest)), len(self.members())
            if digest not in self.ledger.state.proposals:
                made = self.ledger.activation_of(digest)
                if made is not None and made.number > before:
                    return made
                raise CannotPublish("too many other releases were proposed meanwhile; publish again")
            if refusals and not force:
                raise CannotPublish(f"{say_refusals(refusals)}; --force publishes with a majority")
            if held == members or (force and self.ledger.is_held_by_majority(digest)):
                return None
            now = self._loop.time()
            if self.ledger.is_held_by_majority(digest):
                majority_at = majority_at or now
                if now >= majority_at + STRAGGLER_S:
                    return None
            if now >= deadline:
                raise CannotPublish(f"{held} of {members} nodes have the release; a majority is needed")
            await self.await_primary("publish")
            await self._pause(changed)

    def _news_of_ledger(self) -> asyncio.Event:
        """An event that the next change of the ledger sets."""
        event = asyncio.Event()
        self._waiters.append(event)
        return event

    async def _pause(self, changed: asyncio.Event) -> None:
        """Wait for a change of the ledger, or a moment: nothing tells of a change of the view."""
        with suppress(TimeoutError):
            async with asyncio.timeout(0.25):
                await changed.wait()
        if not changed.is_set():
            self._waiters.remove(changed)
