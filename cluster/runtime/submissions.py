"""Batching of submitted entries: queues entries, decides when a batch is submitted, and tracks batches in flight.

The load decides the batch size. With no batch in flight an entry is submitted at once. Otherwise entries collect until
a batch completes, or until there are enough for another batch in flight. A large backlog is split into several batches:
the other members work on the first while the next is made, so no entry waits for the whole backlog.
Above: driver, which hands batches to the process.  Neighbours: group, which bounds the outstanding entries.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Protocol

from cluster.layer import Delivered, DeliveredRun
from cluster.runtime.observe.histogram import BATCH_LENGTHS, WAITING_S, BucketHistogram
from cluster.submission_index import NO_TICKET

if TYPE_CHECKING:
    from collections.abc import Sequence

IN_FLIGHT_MAX = 4  # batches in flight at most
PARALLEL_BATCH_MIN = 128  # queued entries that start another batch while one is in flight
SPLIT_FROM = 384  # queued entries from which on they are split into two batches, when none is in flight
BATCH_MAX = 512  # entries per batch at most

Handle = asyncio.Future[object] | Callable[[Delivered], None] | None


class SubmissionListener(Protocol):
    """Receives completions and free capacity: the group."""

    def on_ended(self, future: asyncio.Future[object], effect: Delivered) -> None: ...
    def on_room(self) -> None: ...


class Submissions:
    """The outstanding entries of this process."""

    __slots__ = (
        "_above", "_in_flight", "_waiting", "_waiting_since", "batch_lengths", "batches", "delivered", "handles",
        "latency", "outstanding", "outstanding_bytes", "refused", "waiting_handles",
    )  # fmt: skip

    def __init__(self, above: SubmissionListener) -> None:
        self._above = above
        self._waiting: list[bytes] = []  # entries not handed to the process yet
        self.waiting_handles: list[Handle] = []
        self.handles: dict[int, Handle] = {}  # completion handle of each submission, by ticket
        self.outstanding = 0  # submissions without an outcome
        self.outstanding_bytes = 0  # their bytes; the bytes of a batch are released together
        self.delivered = self.refused = self.batches = 0
        self.latency = BucketHistogram(WAITING_S)
        self.batch_lengths = BucketHistogram(BATCH_LENGTHS)  # entries per batch
        # for each batch in flight: its last ticket, its bytes, and when its first entry was submitted
        self._in_flight: deque[tuple[int, int, float]] = deque()
        self._waiting_since = 0.0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def put(self, body: bytes, handle: Handle) -> None:
        if not self._waiting:
            self._waiting_since = time.monotonic()
        self._waiting.append(body)
        self.waiting_handles.append(handle)
        self.outstanding += 1
        self.outstanding_bytes += len(body)

    @property
    def is_batch_due(self) -> bool:
        """Whether `submit_batch` should be called now."""
        waiting, in_flight = len(self._waiting), len(self._in_flight)
        return waiting > 0 and (not in_flight or (in_flight < IN_FLIGHT_MAX and waiting >= PARALLEL_BATCH_MIN))

    def submit_batch(self, submit: Callable[[float, list[bytes]], Sequence[int]]) -> None:
        """Submit the next batch to the process: all queued entries, or a part of a large backlog."""
        bodies, handles = self._waiting, self.waiting_handles
        length = len(bodies)
        if length >= SPLIT_FROM:
            length = min(BATCH_MAX, length if self._in_flight else length // 2)
        self._waiting, self.waiting_handles = bodies[length:], handles[length:]
        del bodies[length:], handles[length:]
        now = time.monotonic()
        tickets = submit(now, bodies)
        self.handles.update(zip(tickets, handles, strict=True))
        self._in_flight.append((tickets[-1], sum(map(len, bodies)), self._waiting_since))
        self.batches += 1
        self.batch_lengths.add(length)

    def withdraw(self, handle: Handle) -> bool:
        """Remove the queued entry of this handle; False if it was submitted already."""
        if handle not in self.waiting_handles:
            return False
        at = self.waiting_handles.index(handle)
        self.outstanding -= 1
        self.outstanding_bytes -= len(self._waiting[at])
        del self._waiting[at], self.waiting_handles[at]
        return True

    def ticket_of(self, handle: Handle) -> int | None:
        return next((ticket for ticket, held in self.handles.items() if held is handle), None)

    def abandon(self) -> tuple[list[Handle], list[Handle]]:
        """Drop everything: returns the handles of entries never submitted, and of entries whose outcome is unknown."""
        unsent, self._waiting, self.waiting_handles = self.waiting_handles, [], []
        in_doubt = list(self.handles.values())
        self.handles.clear()
        return unsent, in_doubt

    # ---- completions

    def complete_run(self, run: DeliveredRun) -> None:
        """Complete the submissions of this process that are in a delivered run."""
        tickets, position = run.tickets, run.position
        handles = list(map(self.handles.pop, tickets, repeat(None)))
        count = len(tickets) - tickets.count(NO_TICKET)
        self.outstanding -= count
        self.delivered += count
        self._release_batches(tickets[-1] or max(tickets))
        for ticket, handle, result in zip(tickets, handles, run.results, strict=True):
            if handle is not None:
                if isinstance(handle, asyncio.Future):
                    self._above.on_ended(handle, Delivered(ticket, True, position, "", result))
                else:
                    handle(Delivered(ticket, True, position, "", result))
            position += 1

    def complete_one(self, end: Delivered) -> None:
        handle = self.handles.pop(end.ticket, None)
        self.outstanding -= 1
        if end.delivered:
            self.delivered += 1
        else:
            self.refused += 1
        self._release_batches(end.ticket)
        if isinstance(handle, asyncio.Future):
            self._above.on_ended(handle, end)
        elif handle is not None:
            handle(end)

    def _release_batches(self, ticket: int) -> None:
        """Release the batches whose last ticket is at or below this one."""
        batches = self._in_flight
        while batches and ticket >= batches[0][0]:
            _, size, began = batches.popleft()
            self.outstanding_bytes -= size
            self.latency.add(time.monotonic() - began)
            self._above.on_room()
