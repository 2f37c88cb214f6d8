"""Schedules NAKs of a consumer: which missing packets to ask for now, and which again after a time. Pure.

A NAK asks for the gaps that were found since the NAK before it. These are a round, with a time after which those of its
packets that are still missing are asked for again. So a repair that is lost is noticed soon, and a repair that is under
way is not asked for twice.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.bulk.gaps import Gaps
    from cluster.bulk.packets import Ranges

ROUNDS_MAX = 64  # beyond that the last two become one


class NakRounds:
    """The rounds of one message. A round has the missing packets below its end and not in an earlier round."""

    __slots__ = ("_rounds", "asked_to")

    def __init__(self) -> None:
        self._rounds: list[tuple[int, float]] = []  # (end, when to ask again), by increasing end
        self.asked_to = 0  # missing packets below this one were asked for

    @property
    def due_at(self) -> float:
        """When to ask for something again."""
        return min((due for _, due in self._rounds), default=inf)

    def expire(self, now: float) -> None:
        """The last NAKs brought nothing: all missing packets are due now."""
        self._rounds = [(end, now) for end, _ in self._rounds]

    def take(self, gaps: Gaps, now: float, again_at: float, count: int) -> Ranges:
        """At most `count` ranges to ask for now, and again at `again_at`."""
        ranges: list[tuple[int, int]] = []
        rounds = []
        start = 0
        for end, due in self._rounds:
            missing = gaps.first(count - len(ranges) if due <= now else 1, start, end)
            if due <= now and missing and len(ranges) < count:
                ranges += missing
                rest = gaps.first(1, missing[-1][1], end)  # stays due
                rounds += [(missing[-1][1], again_at), (end, due)] if rest else [(end, again_at)]
            elif missing or len(ranges) >= count:
                rounds.append((end, due))
            start = end
        new = gaps.first(count - len(ranges), self.asked_to) if len(ranges) < count else ()
        if new:
            self.asked_to = new[-1][1]
            rounds.append((self.asked_to, again_at))
        if len(rounds) > ROUNDS_MAX:
            (_, early), (end, late) = rounds[-2:]
            rounds[-2:] = [(end, max(early, late))]
        self._rounds = rounds
        return (*ranges, *new)
