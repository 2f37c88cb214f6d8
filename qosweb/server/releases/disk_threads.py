"""Disk threads: run work on the files of releases off the event loop. Fetches have threads of their own."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = 4

Result = TypeVar("Result")


class DiskThreads:
    """A bounded pool of threads."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="release")

    async def run(self, work: Callable[[], Result]) -> Result:
        return await self._loop.run_in_executor(self._pool, work)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
