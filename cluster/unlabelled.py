"""Submissions that have no label yet: `delay` of the paper, with the tickets of those who wait for their ends.

They come and go in runs, so tickets and entries lie side by side, and nothing is made for each of them.
Above: total order.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.messages import Entry


class Unlabelled:
    __slots__ = ("_entries", "_tickets")

    def __init__(self) -> None:
        self._tickets: deque[int] = deque()
        self._entries: deque[Entry] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def tickets(self) -> list[int]:
        return list(self._tickets)

    def put(self, tickets: Sequence[int], entries: Sequence[Entry]) -> None:
        self._tickets.extend(tickets)
        self._entries.extend(entries)

    def take(self, count_max: int) -> tuple[list[int], tuple[Entry, ...]]:
        """The first of them, with their tickets: all, or `count_max`."""
        tickets, entries = self._tickets, self._entries
        if len(entries) <= count_max:
            taken = list(tickets), tuple(entries)
            tickets.clear()
            entries.clear()
            return taken
        return (
            [tickets.popleft() for _ in range(count_max)],
            tuple([entries.popleft() for _ in range(count_max)]),
        )

    def withdraw(self, ticket: int) -> bool:
        """Take this one out. False: it is not here."""
        if ticket not in self._tickets:
            return False
        at = self._tickets.index(ticket)
        del self._tickets[at], self._entries[at]
        return True
