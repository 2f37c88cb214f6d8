"""Stops raising a server's limit while slow classes wait inside the server and fast classes overtake them.

A class can wait for a pool inside the server (database connections, say) while faster classes pass it by. Then the
mean over classes of the change of ln R always says "the knee is a little below the limit", and the limit would run
away. So growth needs a clearance by a thorough dip: a deep one, with enough starts of every heavy class to drain what
waited for it before. A class is heavy if it has a sixth of the slot time and twice the mean service time. A thorough
dip measures each heavy class by itself, together with the last dips near this level:

    slope = D of the class / ln(b / a), drawn towards 0 as if by a dip of precision DOUBT

A heavy class waits inside if its slope is at least 1/2 and twice its error. Others bypass it if they do not wait as
long: the mean D is less than 0.3 of what it would be if each class waited for the same time. If both hold, the
ceiling of the limit is where the knee of the heavy class is, b e^-D, but not below a; growth is then tried every two
seconds, by a fifth at most. Otherwise the limit may double, or grow by the less the nearer the slope and its error
come to 1/2, and by a tenth at least.

Thorough dips take as long as the slowest heavy class needs, so they are made only when the law wants to exceed the
ceiling. A clearance ages: after ten seconds the ceiling is a quarter above the limit in use. Classes of similar
service times are not guarded: if half of the slot time waits, the mean over classes shows it.
Neighbours: `knee`.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import TYPE_CHECKING

import msgspec

from qosweb.engine.laws.service_samples import LN_CAP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEAVY = 1 / 6  # of slot time: smaller classes cannot fill the server with waiting requests
SLOW = 2.0  # times the mean service time: others are so much faster that they can bypass unseen
SLOPE = 0.5
SIGNIFICANT = 2.0  # standard deviations of the slope
BYPASS = 0.3  # of the mean D that a common queue would cause
DOUBT = 1.0
MEMORY = 0.6  # of earlier dips at the same level
LEVEL_MEMORY = 0.4  # a change of ln b by this makes earlier dips worthless
STARTS_PER_SLOT = 2.5  # of a heavy class, in each phase of a thorough dip
CEILING_MIN = 8  # no limit has run away here, and first impressions of variances are poor
GROWTH_MIN = 0.1
GROWTH_WARY = 0.2
RETRY_S = 2.0
WARY_S = 10.0  # after a class waited
AGE_S = 10.0
AGED_ROOM = 1.25


class ClassFall(msgspec.Struct, frozen=True):
    """The fall of one class in one dip."""

    fall: float  # D: the fall of its mean ln R
    variance: float  # of D
    weight: float  # in the mean over classes
    usual_s: float  # its usual service time


class _Slope:
    """Least squares of D on ln(b / a)."""

    __slots__ = ("explained", "precision")

    def __init__(self) -> None:
        self.precision = self.explained = 0.0

    def add(self, keep: float, fall: float, depth: float, variance: float) -> None:
        self.precision = keep * self.precision + depth * depth / variance
        self.explained = keep * self.explained + fall * depth / variance

    @property
    def value(self) -> float:
        return self.explained / (self.precision + DOUBT)

    @property
    def error(self) -> float:
        return 1 / sqrt(self.precision + DOUBT)


class BypassGuard:
    """The ceiling of a limit."""

    __slots__ = ("_cleared_s", "_ln_level", "_mean", "_of", "_tried_s", "_waited_s", "ceiling", "thorough")

    def __init__(self, limit: int) -> None:
        self.ceiling = max(CEILING_MIN, limit)
        self.thorough = False  # the next dip has to be thorough
        self._of: dict[int, _Slope] = {}
        self._mean = _Slope()
        self._ln_level = 0.0
        self._cleared_s = self._tried_s = 0.0
        self._waited_s: float | None = None  # a class was last seen waiting

    def reset(self, limit: int) -> None:
        """The server changed."""
        self.forget_dips()
        self.ceiling = max(CEILING_MIN, limit)
        self._waited_s = None

    def forget_dips(self) -> None:
        """Service times changed."""
        self._of.clear()
        self._mean = _Slope()

    def active(self, now_s: float) -> bool:
        """A class waits inside the server, or did recently."""
        return self._waited_s is not None and now_s - self._waited_s < WARY_S

    def observe(
        self,
        now_s: float,
        low: float,
        high: float,
        falls: Mapping[int, ClassFall],
        heavy: Sequence[int],
        thorough: bool,
    ) -> None:
        """A dip from `high` to `low`, with the fall of each class, and the heavy classes at `high`."""
        depth, ln_level = log(high / low), log(high)
        keep = MEMORY * max(0.0, 1 - abs(ln_level - self._ln_level) / LEVEL_MEMORY)
        self._ln_level = ln_level
        for number, one in falls.items():
            self._of.setdefault(number, _Slope()).add(keep, one.fall, depth, one.variance)
        mean = sum(one.weight * one.fall for one in falls.values())
        self._mean.add(keep, mean, depth, sum(one.weight**2 * one.variance for one in falls.values()))
        waits = [self._of[number].value for number in heavy if self._is_bypassed(number, falls, depth)]
        if waits:
            self._waited_s = self._tried_s = now_s
            self.ceiling = min(self.ceiling, max(CEILING_MIN, round(high * exp(-depth * min(1.0, max(waits)))) + 1))
        elif thorough:
            slope = max((self._of[number].value + self._of[number].error for number in heavy), default=0.0)
            growth = max(GROWTH_MIN, 1 - max(0.0, slope) / SLOPE)
            if self.active(now_s):
                growth = min(growth, GROWTH_WARY)
            self.ceiling = max(self.ceiling, int(high * (1 + growth)) + 1)
            self._cleared_s = self._tried_s = now_s

    def bound(self, now_s: float, level: int, wanted: int) -> int:
        """At most `wanted`, and no growth beyond the ceiling."""
        if now_s - self._cleared_s > AGE_S:
            self.ceiling = max(CEILING_MIN, min(self.ceiling, int(level * AGED_ROOM) + 1))
        tried_lately = self.active(now_s) and now_s - self._tried_s < RETRY_S
        self.thorough = wanted > self.ceiling and not tried_lately
        return min(wanted, self.ceiling)

    def _is_bypassed(self, number: int, falls: Mapping[int, ClassFall], depth: float) -> bool:
        if number not in falls:
            return False
        slope = self._of[number].value
        if slope < max(SLOPE, SIGNIFICANT * self._of[number].error):
            return False
        wait_s = falls[number].usual_s * (1 - exp(-slope * depth))
        common = sum(one.weight * min(LN_CAP, log(1 + wait_s / one.usual_s)) for one in falls.values())
        return self._mean.value * depth < BYPASS * common


def heavy_classes(classes: Mapping[int, tuple[float, float, float]]) -> list[int]:
    """Classes that are guarded; `classes` has the share of slot time, the weight and the usual service time of each."""
    mean_s = exp(sum(weight * log(usual_s) for _, weight, usual_s in classes.values()))
    return [n for n, (share, _, usual_s) in classes.items() if share >= HEAVY and usual_s > SLOW * mean_s]
