"""Exponential moving averages of the arrivals and starts of a class, over cluster time, in integers.

    mean <- mean + (rate of the last STEP_MS - mean) / 16

After one second of steady flow the mean is at 47 % of it, after two at 72 %, after four at 92 %: slow enough to smooth
out arrivals of a few requests a second, fast enough to follow a flash crowd. (What waits counts as demand at once, see
`demand`.)
"""

from __future__ import annotations

import msgspec

STEP_MS = 100
STEPS_MAX = 800  # after so many empty steps all means are zero
_PER_S = 1000 // STEP_MS
_WEIGHT = 16
_FINE = 1 << 10  # fractions of a byte, so that means decay to zero


class Flow(msgspec.Struct, array_like=True):
    """Mean cost per second of arrivals or starts."""

    now: int = 0  # cost in the current step
    mean: int = 0  # in _FINE parts of a byte a second

    def step(self, steps: int) -> None:
        """Advance by a number of steps."""
        for _ in range(min(steps, STEPS_MAX)):
            self.mean += (self.now * _PER_S * _FINE - self.mean) // _WEIGHT
            self.now = 0

    def per_s_after(self, steps: int) -> int:
        """The mean after further steps without events."""
        later = Flow(self.now, self.mean)
        later.step(steps)
        return later.per_s

    @property
    def per_s(self) -> int:
        return max(0, self.mean // _FINE)  # corrections of costs may make it negative
