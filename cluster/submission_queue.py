"""Submissions that have no label yet: `delay` of the paper, with the tickets of those who wait for their ends.

They come and go in runs, so tickets and bodies lie side by side, and nothing is made for each of them.
Above: total order.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cluster.entries import APPLICATION, Pack, pack_bodies

if TYPE_CHECKING:
    from collections.abc import Sequence


class SubmissionQueue:
    __slots__ = ("_bodies", "_others", "_tickets")

    def __init__(self) -> None:
        self._tickets: deque[int] = deque()
        self._bodies: deque[bytes] = deque()
        self._others: dict[int, str] = {}  # the kinds of those that are not the application's, by ticket

    def __len__(self) -> int:
        return len(self._bodies)

    @property
    def tickets(self) -> list[int]:
        return list(self._tickets)

    def put(self, tickets: Sequence[int], kind: str, bodies: Sequence[bytes]) -> None:
        self._tickets.extend(tickets)
        self._bodies.extend(bodies)
        if kind != APPLICATION:
            self._others.update(dict.fromkeys(tickets, kind))

    def take(self, count_max: int) -> tuple[list[int], Pack]:
        """The first of them, with their tickets: all, or `count_max`."""
        waiting, bodies = self._tickets, self._bodies
        if len(bodies) <= count_max:
            tickets, taken = list(waiting), list(bodies)
            waiting.clear()
            bodies.clear()
        else:
            tickets = [waiting.popleft() for _ in range(count_max)]
            taken = [bodies.popleft() for _ in range(count_max)]
        others = self._take_others(tickets) if self._others else ()
        return tickets, pack_bodies(taken, others)

    def _take_others(self, tickets: list[int]) -> tuple[tuple[int, str], ...]:
        return tuple((place, self._others.pop(of)) for place, of in enumerate(tickets) if of in self._others)

    def withdraw(self, ticket: int) -> bool:
        """Take this one out. False: it is not here."""
        if ticket not in self._tickets:
            return False
        at = self._tickets.index(ticket)
        del self._tickets[at], self._bodies[at]
        self._others.pop(ticket, None)
        return True
