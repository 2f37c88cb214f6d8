"""Service time statistics of a server by class, with an alarm when service times rise.

For each class: the running means and variances of ln R and of R, and a base, the ln R without waiting inside the
server. The base is learnt at low levels of the limit, where little or nothing waits. It is used for the alarm alone:
what decides is a dip.

The alarm is a CUSUM (Page, 1954) of the excess of ln R over what the base and the number in service explain, in units
of the standard deviation. The reference value .35 and the threshold 16 detect a shift of .7 standard deviations after
some 40 samples. It has to last for 40 ms, because many requests may share one pause of the server. A young base is
uncertain, so the reference value is higher for it. All samples count, limited or not: those of one phase alone are
length-biased, and places can vanish while the limit does not bind.
Neighbours: `knee`, `service_samples`.
"""

from __future__ import annotations

from math import exp, sqrt

from qosweb.engine.laws.service_samples import MEAN_OVER, MICRO, SampleRow

REFERENCE = 0.35
THRESHOLD = 16.0
THRESHOLD_PER_SLOT = 1 / 8  # more in service, more of them affected by one pause
EXCESS_MAX = 3.0  # standard deviations that a sample counts at most
DEVIATION_MIN = 0.05  # of ln R: a constant server is not known better
SAMPLES_MIN = 6
LASTS_S = 0.04
SHIFT_MIN = 0.15  # of ln R; a smaller shift is left to the dips
VARIANCE_AT_FIRST = 0.05
FORGET = 0.997  # of a base, per sample: it follows over some 300 samples
UNEVEN_MAX = 4.0
MODES_BELOW = 0.5


class ClassTimes:
    """Service times of one class."""

    __slots__ = ("base", "base_count", "mean", "mean_s", "spread", "variance")

    def __init__(self, ln: float) -> None:
        self.mean = ln  # of ln R
        self.variance = VARIANCE_AT_FIRST
        self.mean_s = exp(ln)  # of R
        self.spread = 1.0  # squared coefficient of variation of R
        self.base = ln
        self.base_count = 0.0  # samples behind the base; 0: none yet

    @property
    def has_modes(self) -> bool:
        """The mean of R is much less noisy than that of ln R: times are either short or long, and none is far off."""
        return self.spread < MODES_BELOW * self.variance

    def learn(self, count: int, ln: float) -> None:
        """Learn from `count` requests whose mean ln R without waiting is `ln`."""
        self.base_count = self.base_count * FORGET**count + count
        self.base += (ln - self.base) * count / self.base_count


class ServiceTimes:
    """Service times of all classes at one server, and the alarm."""

    __slots__ = ("_above_s", "_inverse", "_seen", "count", "counts", "ln_in_service", "mean_s", "of", "shift", "sum")

    def __init__(self) -> None:
        self.of: dict[int, ClassTimes] = {}
        self.mean_s = 0.0  # running mean of R over all classes
        self._inverse = 0.0  # and of 1/R
        self._seen = 0
        self._above_s: float | None = None  # since when the CUSUM has been above its threshold
        self.reset_alarm()

    def reset_alarm(self) -> None:
        self.sum = 0.0  # the CUSUM
        self.count = 0  # samples since it was last 0
        self.shift = 0.0  # their mean excess of ln R over the base
        self.ln_in_service = 0.0  # their mean ln of the number in service
        self.counts: dict[int, int] = {}  # of them, by class

    @property
    def unevenness(self) -> float:
        """Mean R times mean 1/R: by how much waiting behind others of uneven length exaggerates a change of ln R."""
        return min(UNEVEN_MAX, max(1.0, self.mean_s * self._inverse))

    def cap_s(self, number: int, cap: float) -> float:
        """The time at which a request of the class counts as late."""
        known = self.of.get(number)
        if known is None:
            return cap * max(self.mean_s, 1e-3)
        return cap * (known.mean_s if known.has_modes else exp(known.mean))

    def absorb(self, row: SampleRow, ln_knee: float) -> ClassTimes:
        """Add the ended requests of a row; at least one did."""
        count = row.ended
        ln = row.ln / MICRO / count
        one = self.of.get(row.number)
        if one is None:
            one = self.of[row.number] = ClassTimes(ln)
        self._seen += count
        rate = max(1 - (1 - 1 / MEAN_OVER) ** count, min(1.0, count / self._seen))
        self.mean_s += rate * (row.us / MICRO / count - self.mean_s)
        self._inverse += rate * (row.inverse / count - self._inverse)
        rate = 1 - (1 - 1 / MEAN_OVER) ** count
        one.mean += rate * (ln - one.mean)
        one.variance += rate * (row.squares / MICRO / count - one.variance)
        mean_s = row.us / MICRO / count
        one.mean_s += rate * (mean_s - one.mean_s)
        one.spread += rate * (count * (mean_s / one.mean_s - 1) ** 2 - one.spread)
        if one.base_count:
            self._judge(row, one, ln, ln_knee)
        return one

    def alarmed(self, level: int, now_s: float) -> bool:
        """Service times rose, and not for a moment only."""
        threshold = THRESHOLD + level * THRESHOLD_PER_SLOT
        if not (self.sum > threshold and self.count >= SAMPLES_MIN and self.shift > SHIFT_MIN):
            self._above_s = None
            return False
        if self._above_s is None:
            self._above_s = now_s
        return now_s - self._above_s >= LASTS_S

    def doubt_bases(self) -> None:
        """Service times changed: let the bases follow the next samples."""
        for one in self.of.values():
            one.base_count = min(one.base_count, 2.0)

    def _judge(self, row: SampleRow, one: ClassTimes, ln: float, ln_knee: float) -> None:
        count = row.ended
        ln_in_service = row.ln_in_service / MICRO / count
        above = ln - one.base
        unexplained = above - max(0.0, ln_in_service - ln_knee)
        excess = min(EXCESS_MAX, unexplained / max(DEVIATION_MIN, sqrt(one.variance)))
        self.sum += count * (excess - REFERENCE - 2 / sqrt(one.base_count))
        if self.sum <= 0:
            self.reset_alarm()
            return
        self.count += count
        self.shift += (above - self.shift) * count / self.count
        self.ln_in_service += (ln_in_service - self.ln_in_service) * count / self.count
        self.counts[row.number] = self.counts.get(row.number, 0) + count
