"""Runs async test scenarios with members in one event loop, with a time limit."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING

import uvloop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

WITHIN_S = 60.0


def run(story: Callable[[], Coroutine[None, None, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WITHIN_S):
            await story()

    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        runner.run(bounded())
    finally:
        with warnings.catch_warnings():  # an error would leave the socket open, and the loop waits for it for ever
            warnings.simplefilter("default", ResourceWarning)
            runner.close()


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; the time limit of the scenario applies."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
