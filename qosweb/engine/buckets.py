"""Token buckets on ordered time: upper bounds that hold whether or not anybody else wants the capacity.

A bucket fills with `rate_per_s` tokens a second, up to what DEPTH_MS bring. Something may start while there is a token
left, and takes as many as it costs, if need be on credit: the next has to wait for longer, so that over time exactly
the rate passes, whatever the sizes. Levels are in thousandths of a token, so that milliseconds add up without rest.
"""

from __future__ import annotations

from typing import Literal

import msgspec

DEPTH_MS = 100
REQUEST = 1_000_000  # tokens that one request takes where requests are counted


class Rule(msgspec.Struct, frozen=True):
    """A bound in force: the constraint it comes from, the classes it holds together, and how fast they may go."""

    constraint: int
    classes: tuple[int, ...]
    counts: Literal["requests", "bytes"]
    rate_per_s: int

    def price(self, cost: int) -> int:
        return REQUEST if self.counts == "requests" else cost


class Bucket(msgspec.Struct, array_like=True):
    level: int  # thousandths of a token; below zero it is a debt
    at_ms: int

    def fill(self, rule: Rule, now_ms: int) -> None:
        if now_ms > self.at_ms:
            self.level = min(self.level + rule.rate_per_s * (now_ms - self.at_ms), rule.rate_per_s * DEPTH_MS)
            self.at_ms = now_ms

    def take(self, rule: Rule, cost: int) -> None:
        self.level -= 1000 * rule.price(cost)

    def open_at_ms(self, rule: Rule) -> int:
        """From when on something may start."""
        if self.level > 0:
            return self.at_ms
        return self.at_ms + -self.level // max(1, rule.rate_per_s) + 1
