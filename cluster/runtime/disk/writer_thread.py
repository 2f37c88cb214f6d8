"""Disk thread of a member: runs `Store.write` and other store calls one after another, off the event loop.

`log_writer.py` has the rows that a write makes. The thread uses a queue in each direction and nothing else. An executor
with futures needs several more wake-ups per transaction, which delay a lone entry. The driver has one transaction in
progress at a time, so the queue stays short.
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

    WriteCallback = Callable[[Exception | None], None]


class WritableStore(Protocol):
    """Methods of a store that run in the writer thread, and nowhere else."""

    def write(self, records: Sequence[Record]) -> None: ...
    def close(self) -> None: ...


class WriterThread:
    """Runs store calls in one thread, in call order."""

    def __init__(self, store: WritableStore) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[tuple[Callable[[], None], WriteCallback] | None] = SimpleQueue()
        self._closed = self._loop.create_future()
        # A daemon: a process that ends without closing it leaves the disk as after a power failure.
        Thread(target=self._work, name="cluster-store", daemon=True).start()

    def write(self, records: Sequence[Record], done: WriteCallback) -> None:
        """Write the records, then call `done` in the loop: with None, or with the error."""
        self._calls.put((lambda: self._store.write(records), done))

    def call(self, what: Callable[[], None], done: WriteCallback) -> None:
        """Run another store call in the thread, in call order; then call `done` as `write` does."""
        self._calls.put((what, done))

    async def close(self) -> None:
        """Close the store after all queued calls."""
        self._calls.put(None)
        error = await self._closed
        if error is not None:
            raise error

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            what, done = call
            self._call_in_loop(done, self._attempt(what))
        self._call_in_loop(self._closed.set_result, self._attempt(self._store.close))

    @staticmethod
    def _attempt(what: Callable[[], None]) -> Exception | None:
        try:
            what()
        except Exception as error:
            return error
        return None

    def _call_in_loop(self, done: WriteCallback, error: Exception | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            self._loop.call_soon_threadsafe(done, error)
