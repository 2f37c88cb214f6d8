"""Store writer thread: calls run in order off the loop, results are reported in the loop, close comes last."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from cluster.durable import Boot
from cluster.runtime.disk.writer_thread import WriterThread
from tests.cluster.runtime.loops import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.durable import Record


class Notebook:
    """A store that records its calls and their threads."""

    def __init__(self) -> None:
        self.noted: list[object] = []
        self.threads: set[int] = set()
        self.refuses: Exception | None = None

    def write(self, records: Sequence[Record]) -> None:
        self.threads.add(threading.get_ident())
        if self.refuses is not None:
            raise self.refuses
        self.noted.append(list(records))

    def close(self) -> None:
        self.noted.append("closed")
        if self.refuses is not None:
            raise self.refuses


def test_writes_run_in_order_off_the_loop_and_report_in_the_loop() -> None:
    async def story() -> None:
        store, told = Notebook(), []
        writer, loop = WriterThread(store), asyncio.get_running_loop()
        for boot in range(3):
            writer.write([Boot(boot)], lambda error: told.append((error, asyncio.get_running_loop() is loop)))
        await writer.close()
        assert store.noted == [[Boot(0)], [Boot(1)], [Boot(2)], "closed"]
        assert told == [(None, True)] * 3
        assert store.threads.isdisjoint({threading.get_ident()})

    run(story)


def test_a_failed_write_is_reported_and_the_next_one_runs() -> None:
    async def story() -> None:
        store = Notebook()
        told: asyncio.Queue[Exception | None] = asyncio.Queue()
        writer = WriterThread(store)
        store.refuses = OSError("no")
        writer.write([Boot(1)], told.put_nowait)
        assert await told.get() is store.refuses
        store.refuses = None
        writer.write([Boot(1)], told.put_nowait)
        assert await told.get() is None
        assert store.noted == [[Boot(1)]]
        store.refuses = OSError("not even closed")
        with pytest.raises(OSError, match="not even closed"):
            await writer.close()

    run(story)
