"""The thread in which a store writes, so that the event loop goes on while the disk is busy.

A queue each way and nothing between: an executor with its futures costs several wake-ups more for each transaction, and
a lone entry waits for all of them. The driver has one transaction under way at a time, so the queue stays short.
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
    """What is done in the thread, and nowhere else."""

    def write(self, records: Sequence[Record]) -> None: ...
    def close(self) -> None: ...


class Writer:
    def __init__(self, store: WritableStore) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._orders: SimpleQueue[tuple[Callable[[], None], Told] | None] = SimpleQueue()
        self._ended = self._loop.create_future()
        # A daemon: a process that ends without having closed it leaves a disk as after a loss of power.
        Thread(target=self._work, name="cluster-store", daemon=True).start()

    def write(self, records: Sequence[Record], told: Told) -> None:
        """Make these durable, then tell in the loop: None, or why it came to nothing."""
        self._orders.put((lambda: self._store.write(records), told))

    def do(self, what: Callable[[], None], told: Told) -> None:
        """The same for anything else that the store is to keep: in the order of the calls."""
        self._orders.put((what, told))

    async def close(self) -> None:
        """When all that was ordered is done, close the store."""
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
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(told, error)
