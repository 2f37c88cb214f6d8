"""Current primary view of a member, and notification of its changes by callback or async iterator.

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

VIEWS_KEPT = 64  # unread changes kept per iterator; older ones are dropped

log = logging.getLogger("cluster.group")


class PrimaryViewEvents:
    """Holds the current primary view and publishes its changes."""

    def __init__(self) -> None:
        self.view: View | None = None
        self.since = time.monotonic()  # time of the last change, or of creation
        self.count = 0  # primary views established so far
        self.closed = False
        self.changed = asyncio.Event()  # set at the next change or at close, then replaced
        self._callbacks: list[Callable[[View | None], None]] = []
        self._listeners: list[deque[View | None]] = []

    def on_change(self, callback: Callable[[View | None], None]) -> None:
        self._callbacks.append(callback)

    def publish(self, view: View | None) -> None:
        self.view = view
        self.since = time.monotonic()
        self.count += view is not None
        for seen in self._listeners:
            seen.append(view)
        self._ring()
        for callback in self._callbacks:
            callback(view)

    def close(self) -> None:
        """The member stopped: it is in no primary view any more, and no change follows."""
        self.closed = True
        if self.view is not None:
            try:
                self.publish(None)
            except Exception:
                log.exception("a primary view callback raised when the member closed")
        self._ring()

    def _ring(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def changes(self) -> AsyncIterator[View | None]:
        """Yield the current view, then each change, until close."""
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
