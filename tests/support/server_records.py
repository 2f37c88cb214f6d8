"""Records of simulated application servers: utilisation, queue inside and shares of slot time, over any interval.

Slot time is the time in which a worker was occupied. Amounts are summed up in bins of 100 ms.
Written by `loadgen.experiments.simulated_server`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

BIN_S = 0.1
SETTLE_WINDOW_S = 2.0


class ServerMeans(NamedTuple):
    """Means over an interval."""

    use: float  # part of the workers' time in which they were occupied
    queue: float  # requests that waited inside
    slots: float  # workers occupied
    shares: dict[str, float]  # of the slot time, by class


class ServerRecords:
    """Times are in seconds since 1970."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Several servers count as one."""
        self._busy: dict[str, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
        self._inside: defaultdict[int, float] = defaultdict(float)
        self._workers: list[list[tuple[float, int]]] = []
        for path in paths:
            changes = []
            for line in path.read_text().splitlines():
                match json.loads(line):
                    case ["workers", at, number]:
                        changes.append((at, number))
                    case ["fail", _, _]:
                        pass
                    case [name, arrived, began, ended]:
                        _spread(self._busy[name], began, ended)
                        _spread(self._inside, arrived, began)
            self._workers.append(changes)

    def means(self, from_s: float, to_s: float) -> ServerMeans:
        """Of whole bins from `from_s` on."""
        first, last = round(from_s / BIN_S), round(to_s / BIN_S)
        bins, seconds = range(first, last), (last - first) * BIN_S
        busy = {name: sum(of[at] for at in bins if at in of) for name, of in self._busy.items()}
        total = sum(busy.values())
        waited = sum(self._inside[at] for at in bins if at in self._inside)
        shares = {name: amount / total if total else 0.0 for name, amount in busy.items()}
        workers_s = self._workers_s(first * BIN_S, last * BIN_S)
        return ServerMeans(total / max(workers_s, 1e-9), waited / seconds, total / seconds, shares)

    def settled_s(self, from_s: float, to_s: float, use_min: float, queue_max: float) -> float | None:
        """Seconds after `from_s` from which a window of 2 s, and the mean of the rest, keep the goals; None: never."""

        def keeps(means: ServerMeans) -> bool:
            return means.use >= use_min and means.queue <= queue_max

        for step in range(round((to_s - from_s - SETTLE_WINDOW_S) / BIN_S) + 1):
            at_s = from_s + step * BIN_S
            if keeps(self.means(at_s, at_s + SETTLE_WINDOW_S)) and keeps(self.means(at_s, to_s)):
                return step * BIN_S
        return None

    def _workers_s(self, from_s: float, to_s: float) -> float:
        total = 0.0
        for changes in self._workers:
            ends = [at for at, _ in changes[1:]] + [to_s]
            for (at, number), end in zip(changes, ends, strict=True):
                total += number * max(0.0, min(end, to_s) - max(at, from_s))
        return total


def _spread(bins: defaultdict[int, float], from_s: float, to_s: float) -> None:
    """Count an interval in the bins that it overlaps."""
    at = int(from_s / BIN_S)
    while from_s < to_s:
        end = min(to_s, (at + 1) * BIN_S)
        bins[at] += max(0.0, end - from_s)
        from_s, at = end, at + 1
