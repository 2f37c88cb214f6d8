"""Tolerated time: how long a fast server may keep requests before the law limits it.

A queue at the gateway orders requests by class, but costs processor time for each: a gateway starts tens of thousands
of requests a second at once, but only some thousands from its queue. At a server that is as fast as that, a limit at
the knee would make the gateway the bottleneck. So a server that can end X requests a second may keep each for

    T = 1 ms * X / 1000 per second, at least 1 ms and at most 5 ms

and nobody notices: lifetimes are longer. By Little that is X T requests. Times below T count as T. A server whose
requests take longer than T without any wait is limited as ever.

X is the larger of two rates: of the requests that ended, and, by Little, the number in service divided by the mean
time there. The second does not depend on how often the gateway starts requests: otherwise a low limit would make the
gateway slow, few requests would end, and the limit would stay low. The mean is geometric within a class: a pause of
the gateway or of the server must not make a fast server look slow. If it is too small, T is 5 ms at most all the same.
Neighbours: `knee` applies it to samples, `service_samples` has the lower bound of times.
"""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING

from qosweb.engine.laws.service_samples import MICRO, SECONDS_MIN

if TYPE_CHECKING:
    from qosweb.engine.laws.service_samples import SampleRow

RATE_PER_S = 1000.0  # from here on
SECONDS_MAX = 0.005
WINDOW_S = 0.5  # longer than phases: the same T before and in a dip
COUNT_MIN = 0.01  # requests of a class, weighted by age, that are not worth keeping


class WaitTolerance:
    """Measures the rate of a server; shorter service times than it tolerates count as that."""

    __slots__ = ("_ended", "_ended_per_s", "_ln_in_service", "_since_s", "_times", "seconds")

    def __init__(self) -> None:
        self.seconds = SECONDS_MIN  # T
        self._ended_per_s = 0.0
        self._ended = 0  # requests since `advance`
        self._since_s = 0.0
        self._ln_in_service = 0.0  # running mean of ln of the number in service
        self._times: dict[int, list[float]] = {}  # class: recent requests, and the sum of ln R

    @property
    def rate_per_s(self) -> float:
        """X."""
        count = sum(one for one, _ in self._times.values())
        if not count:
            return self._ended_per_s
        seconds = sum(one * exp(ln / one) for one, ln in self._times.values())
        return max(self._ended_per_s, exp(self._ln_in_service) * count / seconds)

    def advance(self, now_s: float) -> None:
        passed_s = now_s - self._since_s
        if passed_s > 0 and self._since_s:
            part = min(1.0, passed_s / WINDOW_S)
            self._ended_per_s += part * (self._ended / passed_s - self._ended_per_s)
            for number, (count, ln) in list(self._times.items()):
                if count < COUNT_MIN:
                    del self._times[number]
                else:
                    self._times[number] = [count * (1 - part), ln * (1 - part)]
            self.seconds = min(SECONDS_MAX, SECONDS_MIN * max(1.0, self.rate_per_s / RATE_PER_S))
        self._since_s, self._ended = now_s, 0

    def apply(self, row: SampleRow) -> None:
        """Raise the mean time of the ended requests in a row to T."""
        if not row.ended:
            return
        self._ended += row.ended
        times = self._times.setdefault(row.number, [0.0, 0.0])
        if not times[0] and len(self._times) == 1:
            self._ln_in_service = row.ln_in_service / MICRO / row.ended
        times[0] += row.ended
        times[1] += row.ln / MICRO
        part = min(1.0, row.ended / sum(count for count, _ in self._times.values()))
        self._ln_in_service += part * (row.ln_in_service / MICRO / row.ended - self._ln_in_service)
        row.ln = max(row.ln, round(row.ended * MICRO * log(self.seconds)))

    def forget_classes(self) -> None:
        """The policy changed, and with it the numbers of the classes."""
        self._times.clear()
