"""Converts costs that are not time (requests, bytes, a response header) into slot time of a pool of servers.

`</p>.cost = requests`, `bytes` or a response header says in what a share of a pool of servers is measured. All classes
with the same measure in a pool share a scale: the slot time that their recent requests took, divided by what these cost
by the measure. So requests of these classes are charged in proportion to the measure, and together with the slot time
that they really took, which keeps demands and shares of the pool's slots comparable with those of the other classes.
Amounts are in thousandths of the measure, so that a header may have three decimals.
Neighbours: `server_pool` owns the scales; `qosweb.admission.cost_measure` measures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from qosweb.webqos.policy.terms import Terms

UNIT = 1000  # an amount of one
AMOUNT_MAX = 1_000_000_000 * UNIT  # of one request
RECENT = 256  # requests; older ones count half


class CostScale(msgspec.Struct, array_like=True):
    """Recent requests with one measure."""

    requests: int = 0
    used_us: int = 0
    amount: int = 0

    def add(self, requests: int, used_us: int, amount: int) -> None:
        self.requests += requests
        self.used_us += used_us
        self.amount += amount
        while self.requests > RECENT:
            self.requests, self.used_us, self.amount = self.requests // 2, self.used_us // 2, self.amount // 2

    def slot_us(self, amount: int) -> int:
        return max(1, amount * self.used_us // self.amount) if self.amount else 1


def measure_of(terms: Terms) -> str:
    """The measure of a class; empty: slot time."""
    if terms.cost == "header":
        assert terms.cost_header is not None
        return f"header {terms.cost_header.lower()}"
    return terms.cost if terms.cost in ("bytes", "requests") else ""
