"""Pipe usage by access logs: a response with a channel is sent evenly from its start to its end.

The cost is the bytes of the body plus the fixed cost of a request. Times are those of the logs, in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from qosweb.admission.gate import HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable


class Sent(NamedTuple):
    class_name: str
    arrived_s: float
    began_s: float
    ended_s: float
    cost: int

    def within(self, from_s: float, to_s: float) -> float:
        """The part of the cost between these times."""
        if self.ended_s <= self.began_s:
            return float(self.cost if from_s <= self.began_s < to_s else 0)
        overlap_s = min(self.ended_s, to_s) - max(self.began_s, from_s)
        return max(0.0, overlap_s) / (self.ended_s - self.began_s) * self.cost


def sent(requests: Iterable[dict[str, Any]]) -> list[Sent]:
    """The served requests in the order of their start."""
    found = [
        Sent(
            str(line["class"]),
            (at_s := float(line["ts"])),
            at_s + float(line["queue_ms"]) / 1e3,
            at_s + float(line["total_ms"]) / 1e3,
            int(line["bytes"]) + HEAD_BYTES,
        )
        for line in requests
        if line["decision"] == "served"
    ]
    return sorted(found, key=lambda one: one.began_s)


def rate_bps(answers: Iterable[Sent], from_s: float, to_s: float) -> float:
    return sum(one.within(from_s, to_s) for one in answers) / (to_s - from_s)
