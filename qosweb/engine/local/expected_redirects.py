"""Redirected clients at the receiving node: which are expected, have arrived, wait for room, or missed their channel.

A channel is held for each expected client for VISIT_MS. A client that does not arrive in time is remembered until its
ticket can no longer be valid, so that the channel is not used twice.
Neighbours: `pipe_queue` calls this, and reports the use of the channels to the other nodes.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from qosweb.engine.local.requests import READY, Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.names import ProcessId

    Key = tuple[ProcessId, int]  # the redirecting node, and the request's number there

VISIT_MS = 2_000  # how long a channel is held for a redirected client
VISITS_MAX = 10_000
MISSED_MS = 5_000  # longer than a ticket is valid after its channel is gone


class ExpectedRedirect:
    """A channel held for a redirected client."""

    __slots__ = ("class_number", "cost", "rate_bps", "until_ms")

    def __init__(self, class_number: int, cost: int, rate_bps: int, until_ms: int) -> None:
        self.class_number = class_number
        self.cost = cost
        self.rate_bps = rate_bps
        self.until_ms = until_ms


class ExpectedRedirects:
    """All redirected clients of one node, by the redirecting node and the request's number."""

    __slots__ = ("_came", "_count", "_expected", "_missed", "_waiting")

    def __init__(self) -> None:
        self._expected: dict[Key, ExpectedRedirect] = {}  # in the order of their deadlines
        self._missed: dict[Key, int] = {}  # clients that did not arrive in time, and until when to remember them
        self._came: dict[Key, Request] = {}  # arrived, and running or ready here
        self._waiting: list[tuple[int, int, Request]] = []  # deadlines of arrived clients that wait for room
        self._count = 0

    @property
    def expected(self) -> list[Key]:
        return list(self._expected)

    @property
    def requests(self) -> list[Request]:
        return list(self._came.values())

    def has_come(self, key: Key) -> bool:
        return key in self._came

    def has_missed(self, key: Key) -> bool:
        return key in self._missed

    def expect(self, key: Key, visit: ExpectedRedirect) -> bool:
        """Hold a channel for a client. False: too many are held already."""
        self._expected.pop(key, None)
        if len(self._expected) >= VISITS_MAX:
            return False
        self._expected[key] = visit
        return True

    def expect_nobody(self) -> None:
        self._expected.clear()

    def arrive(self, key: Key, request: Request) -> ExpectedRedirect | None:
        """A client has arrived. Returns its channel, if the reservation came first."""
        self._came[key] = request
        return self._expected.pop(key, None)

    def wait(self, request: Request, until_ms: int) -> None:
        self._count += 1
        request.deadline_ms = until_ms
        heappush(self._waiting, (until_ms, self._count, request))

    def leave(self, key: Key) -> None:
        self._came.pop(key, None)

    def adopt(self) -> list[Request]:
        """Hand over all arrived requests: they are the node's own from now on."""
        came, self._came = self._came, {}
        return list(came.values())

    def no_shows(self, now_ms: int) -> Iterator[Key]:
        """Release the channels of clients that did not arrive in time, and yield their keys."""
        while self._expected:
            key, visit = next(iter(self._expected.items()))
            if visit.until_ms > now_ms:
                break
            del self._expected[key]
            self._missed[key] = now_ms + MISSED_MS
            yield key
        while self._missed and next(iter(self._missed.values())) <= now_ms:
            del self._missed[next(iter(self._missed))]

    def too_late(self, now_ms: int) -> Iterator[Request]:
        """Requests that waited for room until their deadline."""
        while self._waiting and self._waiting[0][0] <= now_ms:
            _, _, request = heappop(self._waiting)
            if request.phase is READY:
                yield request

    def next_ms(self) -> int | None:
        """When the next channel or waiting request may expire."""
        of_expected = next(iter(self._expected.values())).until_ms if self._expected else None
        of_waiting = self._waiting[0][0] if self._waiting else None
        return min((one for one in (of_expected, of_waiting) if one is not None), default=None)

    def translate(self, numbers: Sequence[int]) -> None:
        """Translate class numbers after a change of policy."""
        for request in self._came.values():
            request.class_number = numbers[request.class_number]
        for visit in self._expected.values():
            visit.class_number = numbers[visit.class_number]
