"""Resource model: estimates a node's capacity in bytes per second, and the fixed cost of a request in bytes.

Paper: section 3.1. Each server keeps a table of load factors and its capacity at each; every time a job finishes, the
table is revised from its transmission time and the average number of concurrent requests meanwhile.

A request of ``x`` bytes that took ``s`` with ``n`` requests in service on average (itself included) had the server to
itself for ``y = s / n``. With a capacity of ``B`` and a fixed cost of ``c`` bytes for each request,

    y = (c + x) / B,   hence   B = sum(c + x) / sum(y)   over the recent requests at this level of load

(the ratio of sums, so that many tiny responses weigh as much as the time that they took). ``c`` is the same for all
levels. It comes from a line ``y = F + x / b`` through all recent requests, fitted by least squares of relative errors:
``c = F * b``. It stays unchanged when the sizes are too similar to tell ``F`` from ``b``. "Recent" means exponential
forgetting: a request that is KEPT requests old has a weight of 1/e.

One request counts for at most OUTLIER times its expected time, and for at least 1/OUTLIER of it: a stall moves the
table little, a lasting change of the machine moves it far. Callers leave out requests that say nothing about the
capacity: responses that were paced, or that waited for a slow reader.

Departs: the paper averages the bandwidths that jobs saw, where the smallest files would count as much as the largest;
it has no fixed cost. A level without data borrows from the nearest level with data.
Floats inside, integers out: this is the node's own estimate, which other nodes only receive. Times are arguments.
Neighbours: ``qosweb.admission.capacity_meter`` reports requests, ``qosweb.admission.machine_load`` reports the load.
"""

from __future__ import annotations

LEVELS = 10  # of load; the last one is 90 % and above
PPM = 1_000_000
NS = 1_000_000_000
KEPT = 256  # requests at one level
KEPT_FIT = 1024
PRIOR_BPS = 1 << 30
PRIOR_WEIGHT = 4.0
KNOWN_WEIGHT = 4.0  # requests after which a level has data of its own
OUTLIER = 8.0
SPREAD_MIN = 0.02  # of the sizes; below it they are too similar
FIXED_PRIOR = 256
FIXED_MIN = 64
FIXED_MAX = 1 << 20
FIXED_STEP = 0.02  # largest change by one request
CAPACITY_MIN = 1 << 10
CAPACITY_MAX = 1 << 40
_PRIOR_SIZE = 16 << 10
_TINY = 4 << 10  # differences between sizes below it matter little


class _Level:
    """Sums over the requests at one level of load."""

    __slots__ = ("busy_ns", "cost", "weight")

    def __init__(self) -> None:
        self.weight = 0.0
        self.cost = 0.0  # bytes, fixed costs included
        self.busy_ns = 0.0

    @property
    def bytes_per_ns(self) -> float:
        return self.cost / self.busy_ns

    def add(self, cost: float, busy_ns: float, weight: float) -> None:
        kept = (1 - 1 / KEPT) ** weight
        self.weight = self.weight * kept + weight
        self.cost = self.cost * kept + cost * weight
        self.busy_ns = self.busy_ns * kept + busy_ns * weight


class _RegressionLine:
    """Regression line through recent requests, weighted by about the inverse square of the size (relative errors)."""

    __slots__ = ("w", "wx", "wxx", "wxy", "wy")

    def __init__(self) -> None:
        self.w = self.wx = self.wy = self.wxx = self.wxy = 0.0

    def add(self, x: float, y: float, weight: float) -> None:
        kept = (1 - 1 / KEPT_FIT) ** weight
        w = weight / ((_TINY + x) * (_TINY + x))
        self.w = self.w * kept + w
        self.wx = self.wx * kept + w * x
        self.wy = self.wy * kept + w * y
        self.wxx = self.wxx * kept + w * x * x
        self.wxy = self.wxy * kept + w * x * y

    def intercept_over_slope(self) -> float | None:
        spread = self.w * self.wxx - self.wx * self.wx
        if spread <= SPREAD_MIN * self.w * self.wxx:
            return None
        slope = (self.w * self.wxy - self.wx * self.wy) / spread
        if slope <= 0.0:
            return None
        return (self.wy - slope * self.wx) / self.w / slope


class ResourceModel:
    """Capacity estimate of one node."""

    __slots__ = ("_fixed", "_levels", "_line", "_prior_bytes_per_ns")

    def __init__(self, prior_bps: int = PRIOR_BPS) -> None:
        self._prior_bytes_per_ns = min(max(prior_bps, CAPACITY_MIN), CAPACITY_MAX) / NS
        self._levels = [_Level() for _ in range(LEVELS)]
        self._line = _RegressionLine()
        self._fixed = float(FIXED_PRIOR)

    @property
    def fixed_bytes(self) -> int:
        """Fixed cost of a request, besides its body."""
        return round(self._fixed)

    def capacity_bps(self, load_ppm: int) -> int:
        """Bytes per second, fixed costs included, at this processor load."""
        return min(max(round(self._bytes_per_ns(_level(load_ppm)) * NS), CAPACITY_MIN), CAPACITY_MAX)

    def finished(self, size: int, service_ns: int, concurrency_milli: int, load_ppm: int, count: int = 1) -> None:
        """Record a finished request: its size, service time and mean concurrency (1000: it was alone).

        ``count`` requests of the same kind may be recorded as one, with the mean of their sizes and times.
        Impossible values are ignored.
        """
        if size < 0 or service_ns <= 0 or concurrency_milli < 1000 or count < 1:
            return
        number = _level(load_ppm)
        level = self._levels[number]
        expected_ns = (self._fixed + size) / self._bytes_per_ns(number)
        busy_ns = service_ns * 1000 / concurrency_milli
        weight = float(min(count, KEPT))
        bound = OUTLIER * weight  # the mean of many requests is no outlier
        busy_ns = min(max(busy_ns, expected_ns / bound), expected_ns * bound)
        if not level.weight:  # start from the other levels' data, not from the first requests alone
            borrowed = _PRIOR_SIZE / self._bytes_per_ns(number)
            level.add(_PRIOR_SIZE, borrowed, PRIOR_WEIGHT)
        self._line.add(size, busy_ns, weight)
        found = self._line.intercept_over_slope()
        if found is not None:
            step = 1 + FIXED_STEP
            self._fixed = min(max(found, self._fixed / step, FIXED_MIN), self._fixed * step, FIXED_MAX)
        level.add(self._fixed + size, busy_ns, weight)

    def _bytes_per_ns(self, number: int) -> float:
        """Of this level or, without enough data, of the nearest level with data; of two, the busier."""
        for distance in range(LEVELS):
            for other in (number + distance, number - distance):
                if 0 <= other < LEVELS and self._levels[other].weight >= KNOWN_WEIGHT + PRIOR_WEIGHT:
                    return self._levels[other].bytes_per_ns
        return self._prior_bytes_per_ns


class Concurrency:
    """Number of requests in service, now and on average since any moment.

    ``area(now)`` is the integral of the number over time: a request that notes it at its start knows its average
    concurrency at its end.
    """

    __slots__ = ("_area", "_at", "now_in_service")

    def __init__(self) -> None:
        self.now_in_service = 0
        self._area = 0.0
        self._at = 0.0

    def area(self, now: float) -> float:
        if now > self._at:
            self._area += self.now_in_service * (now - self._at)
            self._at = now
        return self._area

    def enter(self, now: float) -> float:
        """A request enters service. Returns the area at its start."""
        area = self.area(now)
        self.now_in_service += 1
        return area

    def leave(self, began: float, began_area: float, now: float) -> int:
        """A request leaves service. Returns its mean concurrency in thousandths; at least 1000: itself."""
        area = self.area(now)
        self.now_in_service -= 1
        return max(1000, round((area - began_area) / (now - began) * 1000)) if now > began else 1000


def _level(load_ppm: int) -> int:
    return min(max(load_ppm, 0) * LEVELS // PPM, LEVELS - 1)
