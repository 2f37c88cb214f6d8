"""Token buckets on cluster time: upper bounds that are enforced even if no other class wants the capacity.

A bucket fills with `rate_per_s` tokens a second, up to the tokens of DEPTH_MS. A request may start while there is a
token left. It takes as many tokens as it costs, if need be on credit: then the next request waits longer. Over time
exactly the rate passes, whatever the sizes. Levels are in thousandths of a token, so that filling by milliseconds
leaves no remainder.
"""

from __future__ import annotations

from typing import Literal

import msgspec

DEPTH_MS = 100
REQUEST = 1_000_000  # tokens that one request takes where the bound counts requests


class BucketRule(msgspec.Struct, frozen=True):
    """A bound in force: its constraint, the classes that share it, and their joint rate."""

    constraint: int
    classes: tuple[int, ...]
    counts: Literal["requests", "bytes"]
    rate_per_s: int
    of_client: bool = False  # it depends on the client
    share_ppm: int = 0  # it is a hard share of the capacity

    def price(self, requests: int, cost: int) -> int:
        return requests * REQUEST if self.counts == "requests" else cost


class Bucket(msgspec.Struct, array_like=True):
    """The token bucket of one rule."""

    level: int  # thousandths of a token; below zero it is a debt
    at_ms: int

    def fill(self, rule: BucketRule, now_ms: int) -> None:
        if now_ms > self.at_ms:
            self.level = self.level_at(rule, now_ms)
            self.at_ms = now_ms

    def level_at(self, rule: BucketRule, now_ms: int) -> int:
        """The level that `fill` would set."""
        return min(self.level + rule.rate_per_s * max(0, now_ms - self.at_ms), rule.rate_per_s * DEPTH_MS)

    def take(self, rule: BucketRule, requests: int, cost: int) -> None:
        """Take tokens. Both arguments may be negative: tokens are given back, and the overflow is lost."""
        self.level = min(self.level - 1000 * rule.price(requests, cost), rule.rate_per_s * DEPTH_MS)

    def open_at_ms(self, rule: BucketRule) -> int | None:
        """When a request may start, if ever."""
        if self.level > 0:
            return self.at_ms
        if not rule.rate_per_s:
            return None
        return self.at_ms + -self.level // rule.rate_per_s + 1
