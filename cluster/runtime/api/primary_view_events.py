"""The primary view a member is in, and those who want to hear of its changes: by a call, or one by one.

Above: group, replica.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from cluster.names import View

VIEWS_KEPT = 64  # changes that somebody who listens has not taken yet; older ones are dropped

log = logging.getLogger("cluster.group")


class PrimaryViewEvents:
    def __init__(self) -> None:
        self.view: View | None = None
        self.since = time.monotonic()  # of its last change; before the first, since there is somebody to ask
        self.count = 0  # primary views so far
        self.closed = False
        self.changed = asyncio.Event()  # set at the next change, or at the end; then there is another one
        self._callbacks: list[Callable[[View | None], None]] = []
        self._listeners: list[deque[View | None]] = []

    def on_change(self, callback: Callable[[View | None], None]) -> None:
        self._callbacks.append(callback)

    def tell(self, view: View | None) -> None:
        self.view = view
        self.since = time.monotonic()
        self.count += view is not None
        for seen in self._listeners:
            seen.append(view)
        self._ring()
        for callback in self._callbacks:
            callback(view)

    def close(self) -> None:
        """The member stopped: it is in no primary view any more, and there is nothing more to tell."""
        self.closed = True
        if self.view is not None:
            try:
                self.tell(None)
            except Exception:
                log.exception("a callback that was told of the end of the primary view failed")
        self._ring()

    def _ring(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def one_by_one(self) -> AsyncIterator[View | None]:
        """What it is now, then each change, until the end."""
        seen: deque[View | None] = deque([self.view], maxlen=VIEWS_KEPT)
        self._listeners.append(seen)
        try:
            while True:
                while seen:
                    yield seen.popleft()
                if self.closed:
                    return
                await self.changed.wait()
        finally:
            self._listeners.remove(seen)
