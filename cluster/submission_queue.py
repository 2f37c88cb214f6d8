"""Entries submitted here and not yet sent to the group (`delay` in the paper).

Submissions are added and removed in runs. Tickets and bodies are kept in parallel lists, so no object is made for each.
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
        self._others: dict[int, str] = {}  # by ticket: the kind of each entry that is not the application's

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
        """Removes and returns the first submissions with their tickets: all, or `count_max`."""
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
        """Removes the submission with this ticket. False: it is not in the queue."""
        if ticket not in self._tickets:
            return False
        at = self._tickets.index(ticket)
        del self._tickets[at], self._bodies[at]
        self._others.pop(ticket, None)
        return True
