"""Probability distribution of a server's knee: the number of requests N that it really serves at a time.

A probability per cell of a grid of ln N. A dip of the limit from `high` to `low` shows by how much the mean of ln R
fell. If the server has N places, it falls by

    P(N) = ln(max(high, N) / max(low, N)),

or, for a server with a FIFO queue and service times of uneven length, by up to `ratio` times that. The likelihood of
the fall D is normal in the distance of D from [P, ratio P]. P is constant for N below `low` and for N above `high`,
so only the cells in between need an exponential. Its floor keeps one wrong observation from excluding anything.

Between dips, N drifts (a random walk) or jumps (a leak into a Laplace distribution around the mean). The grid has
steps of 2 %; quantiles are interpolated within a cell. Neighbours: `knee`.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from math import exp, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

STEP = 0.02  # of ln N
GRID_ROOM = 1.5  # the grid ends at this multiple of the highest limit
DRIFT = 0.02  # of ln N, per root of a second: places come and go slowly
LEAK_PER_S = 0.02  # N jumps: half a minute makes a jump as likely as not
JUMP_SCALE = 0.5  # of ln N
GAP_MAX_S = 5.0  # a longer gap widens no further: nothing was learnt, but nothing is known to have changed
PENALTY_MAX = 12.0
FLOOR = 1e-6
SMOOTH_MAX = 0.4  # largest stable coefficient of one smoothing pass is .5
ALARM_SPREAD = 0.15  # standard deviation of ln N around what an alarm suggests
QUANTILES = (0.1, 0.5, 0.7, 0.9)


class KneePosterior:
    """Probabilities of ln N, and their quantiles."""

    __slots__ = ("_jump", "_p", "q10", "q50", "q70", "q90")

    def __init__(self, limit_max: int, start: int) -> None:
        count = int(log(limit_max * GRID_ROOM) / STEP) + 2
        self._p = _normalised(_prior(count))
        self._jump = [exp(-abs(i - count) * STEP / JUMP_SCALE) for i in range(2 * count + 1)]
        self.q10, self.q50, self.q70, self.q90 = 1.0, float(start), float(start), float(start)

    def advance(self, seconds: float) -> None:
        """Drift and leak over a time without observations."""
        p = self._p
        count = len(p)
        seconds = min(seconds, GAP_MAX_S)
        smooth = DRIFT * DRIFT * seconds / (STEP * STEP) / 2
        passes = int(smooth / SMOOTH_MAX) + 1
        side = smooth / passes
        middle = 1 - 2 * side
        for _ in range(passes):
            p = [middle * at + side * (below + above)
                 for below, at, above in zip(p[:1] + p[:-1], p, p[1:] + p[-1:], strict=True)]  # fmt: skip
        mean = round(sum(i * value for i, value in enumerate(p)))
        jump = self._jump[count - mean : 2 * count - mean]
        leak = 1 - exp(-LEAK_PER_S * seconds)
        keep, spread = 1 - leak, leak / sum(jump)
        self._p = [keep * at + spread * to for at, to in zip(p, jump, strict=True)]

    def observe(self, low: float, high: float, fall: float, variance: float, ratio: float) -> None:
        """Multiply by the likelihood of one dip."""
        ln_low, ln_high = log(low), log(high)
        first = min(len(self._p), int(ln_low / STEP) + 1)  # below it P is that of `low`
        last = min(len(self._p), int(ln_high / STEP) + 1)  # from it on P is 0

        def likelihood(predicted: float) -> float:
            distance = fall - min(max(fall, predicted), ratio * predicted)
            return exp(-min(PENALTY_MAX, distance * distance / (2 * variance))) + FLOOR

        p = self._p
        below, above = likelihood(ln_high - ln_low), likelihood(0.0)
        self._p = _normalised(
            [
                *(value * below for value in p[:first]),
                *(p[i] * likelihood(ln_high - i * STEP) for i in range(first, last)),
                *(value * above for value in p[last:]),
            ]
        )
        self._find_quantiles()

    def at_least(self, ln_knee: float, variance: float) -> None:
        """Multiply by the likelihood of an upper bound of the wait, which says that ln N is at least this."""
        first = min(len(self._p), int(ln_knee / STEP) + 1)
        if ln_knee > 0:
            below = [
                value * (exp(-min(PENALTY_MAX, (ln_knee - i * STEP) ** 2 / (2 * variance))) + FLOOR)
                for i, value in enumerate(self._p[:first])
            ]
            self._p = _normalised([*below, *self._p[first:]])
            self._find_quantiles()

    def suggest(self, low: float, high: float) -> None:
        """Move half of the probability to ln N in [low, high]."""
        spread = 2 * ALARM_SPREAD * ALARM_SPREAD
        near = _normalised(exp(-(max(0.0, low - i * STEP, i * STEP - high) ** 2) / spread) for i in range(len(self._p)))
        self._p = [(at + to) / 2 for at, to in zip(self._p, near, strict=True)]

    def begin_at(self, level: int) -> None:
        """Begin with what another law had found: its limit is the knee and a margin of one."""
        ln_knee = log(max(1, level - 1))
        self.suggest(ln_knee, ln_knee)
        self.suggest(ln_knee, ln_knee)
        self._find_quantiles()

    def doubt(self) -> None:
        """Move half of the probability back to the prior: the server may have been replaced."""
        prior = _normalised(_prior(len(self._p)))
        self._p = [(at + to) / 2 for at, to in zip(self._p, prior, strict=True)]
        self._find_quantiles()

    def _find_quantiles(self) -> None:
        sums = list(accumulate(self._p))
        found = []
        for wanted in QUANTILES:
            i = min(bisect_left(sums, wanted), len(sums) - 1)
            inside = (sums[i] - wanted) / self._p[i] if self._p[i] else 0.0
            found.append(exp(max(0.0, i - max(0.0, inside) + 0.5) * STEP) if i else 1.0)
        self.q10, self.q50, self.q70, self.q90 = found


def _prior(count: int) -> Iterable[float]:
    """N^-1/2: cautious."""
    return (exp(-0.5 * i * STEP) for i in range(count))


def _normalised(weights: Iterable[float]) -> list[float]:
    values = list(weights)
    total = sum(values)
    return [value / total for value in values]
