"""Tolerated wait: how long requests may wait inside a fast server before the law limits it.

A queue at the gateway orders requests by class, but costs processor time for each: a gateway starts tens of thousands
of requests a second at once, but only some thousands from its queue. At a server that is as fast as that, a limit at
the knee would make the gateway the bottleneck. So a server that ends X requests a second may keep each for

    T = 1 ms * X / 1000 per second, at least 1 ms and at most 5 ms

more than 1 ms, and nobody notices: lifetimes are longer. By Little that is X T requests. Up to 1,000 requests a second
there is no effect. Times are reduced by T - 1 ms, not below 1 ms, before they are compared.
Neighbours: `knee` applies it to samples, `service_samples` has the lower bound of times.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING

from qosweb.engine.laws.service_samples import MICRO, SECONDS_MIN

if TYPE_CHECKING:
    from qosweb.engine.laws.service_samples import SampleRow

RATE_PER_S = 1000.0  # from here on
WAIT_MAX_S = 0.005
WINDOW_S = 0.5  # longer than phases: the same reduction before and in a dip

_LN_MIN = log(SECONDS_MIN)


class WaitTolerance:
    """Measures the rate of a server, and reduces service times by the tolerated wait."""

    __slots__ = ("_ended", "_rate_per_s", "_since_s")

    def __init__(self) -> None:
        self._rate_per_s = 0.0
        self._ended = 0
        self._since_s = 0.0

    @property
    def wait_s(self) -> float:
        return min(WAIT_MAX_S, SECONDS_MIN * max(1.0, self._rate_per_s / RATE_PER_S)) - SECONDS_MIN

    def advance(self, now_s: float) -> None:
        passed_s = now_s - self._since_s
        if passed_s > 0 and self._since_s:
            part = min(1.0, passed_s / WINDOW_S)
            self._rate_per_s += part * (self._ended / passed_s - self._rate_per_s)
        self._since_s, self._ended = now_s, 0

    def apply(self, row: SampleRow) -> None:
        """Reduce the mean time of the ended requests in a row."""
        self._ended += row.ended
        wait_s = self.wait_s
        if row.ended and wait_s > 0:
            mean_s = exp(row.ln / MICRO / row.ended)
            row.ln = round(row.ended * MICRO * (log(mean_s - wait_s) if mean_s > wait_s + SECONDS_MIN else _LN_MIN))
