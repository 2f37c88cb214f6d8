"""Measurements of a simulated run: utilisation, queue and limit over a window, and the settling time.

A run has settled at the first time from which a window of two seconds, and the mean of the rest, keep the goals: 95 %
of the places busy, and at most two requests waiting inside.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import msgspec

from tests.engine.laws.sim.gateways import BUCKET_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.engine.laws.sim.gateways import Snapshot

USE_GOAL = 0.95
QUEUE_GOAL = 2.0
SETTLE_WINDOW_S = 2.0


class Means(msgspec.Struct, frozen=True):
    """Means over a window."""

    use: float  # of the places
    queue: float  # requests that wait inside
    work: float  # per second
    limit: float
    limit_deviation: float
    limit_max: int


def window(buckets: Sequence[Snapshot], from_s: float, to_s: float) -> Means:
    part = buckets[round(from_s / BUCKET_S) : round(to_s / BUCKET_S) + 1]
    first, last = part[0], part[-1]
    seconds = (len(part) - 1) * BUCKET_S
    limits = [one.limit for one in part]
    mean = sum(limits) / len(limits)
    return Means(
        use=(last.busy - first.busy) / max(last.places - first.places, 1e-9),
        queue=(last.waiting - first.waiting) / seconds,
        work=(last.work - first.work) / seconds,
        limit=mean,
        limit_deviation=sqrt(sum((one - mean) ** 2 for one in limits) / len(limits)),
        limit_max=max(limits),
    )


def settled_s(buckets: Sequence[Snapshot], from_s: float, to_s: float) -> float | None:
    """Seconds after `from_s`; None if the goals are not kept before `to_s`."""
    steps = round((to_s - from_s - SETTLE_WINDOW_S) / BUCKET_S)
    for step in range(steps):
        at_s = from_s + step * BUCKET_S
        if _keeps(window(buckets, at_s, at_s + SETTLE_WINDOW_S)) and _keeps(window(buckets, at_s, to_s)):
            return step * BUCKET_S
    return None


def _keeps(one: Means) -> bool:
    return one.use >= USE_GOAL and one.queue <= QUEUE_GOAL
