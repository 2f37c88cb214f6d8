"""Store writer thread: runs transactions off the event loop.

It uses a queue in each direction and nothing else. An executor with futures needs several more wake-ups per
transaction, which delay a lone entry. The driver has one transaction in progress at a time, so the queue stays short.
Above: driver.  Below: a store.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.durable import Record

    Told = Callable[[Exception | None], None]


class WritableStore(Protocol):
    """What runs in the writer thread, and nowhere else."""

    def write(self, records: Sequence[Record]) -> None: ...
    def close(self) -> None: ...


class Writer:
    """Runs store calls in one thread, in call order."""

    def __init__(self, store: WritableStore) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._orders: SimpleQueue[tuple[Callable[[], None], Told] | None] = SimpleQueue()
        self._ended = self._loop.create_future()
        # A daemon: a process that ends without closing it leaves the disk as after a power failure.
        Thread(target=self._work, name="cluster-store", daemon=True).start()

    def write(self, records: Sequence[Record], told: Told) -> None:
        """Write the records, then call `told` in the loop: with None, or with the error."""
        self._orders.put((lambda: self._store.write(records), told))

    def do(self, what: Callable[[], None], told: Told) -> None:
        """Run another store call in the thread, in call order; then call `told` as `write` does."""
        self._orders.put((what, told))

    async def close(self) -> None:
        """Close the store after all queued calls."""
        self._orders.put(None)
        error = await self._ended
        if error is not None:
            raise error

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            what, told = order
            self._tell(told, self._attempt(what))
        self._tell(self._ended.set_result, self._attempt(self._store.close))

    @staticmethod
    def _attempt(what: Callable[[], None]) -> Exception | None:
        try:
            what()
        except Exception as error:
            return error
        return None

    def _tell(self, told: Told, error: Exception | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            self._loop.call_soon_threadsafe(told, error)
