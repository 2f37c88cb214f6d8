"""Slots of the adaptive order: which member owns which position of the sequence.

Paper: Chockler, Huleihel and Dolev, PODC 1998, section 4.2: the sequence of members that the shared generator G makes
of a distribution's weights.
Departs: G deals in rounds. In a round of sum(weights) slots, a member of weight w has exactly w slots, spread evenly. A
seed shifts the members against each other. All rounds are alike. So the place of any slot is computed by arithmetic,
however far away: the sequence is never walked along, and giving up a thousand slots costs as much as giving up one.
"""

from __future__ import annotations

from bisect import bisect_left
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.names import ViewId

ROUND_MAX = 1 << 14  # slots in a round; weights that add up to more are refused
_PHASE_BITS = 32


class SlotAssignment:
    """The slots of one distribution, in one view."""

    __slots__ = ("offsets", "total", "weights")

    def __init__(self, weights: tuple[int, ...], view_id: ViewId, dist_id: int) -> None:
        self.weights = weights
        self.total = sum(weights)
        self.offsets: list[list[int]] = [[] for _ in weights]  # by rank: the places of its slots in a round
        seed = f"{view_id.epoch}/{view_id.digest}/{dist_id}"
        slots: list[tuple[int, int]] = []
        for rank, weight in enumerate(weights):
            phase = int.from_bytes(blake2b(f"{seed}/{rank}".encode(), digest_size=_PHASE_BITS // 8).digest(), "big")
            slots.extend(((((k << _PHASE_BITS) + phase) << _PHASE_BITS) // weight, rank) for k in range(weight))
        slots.sort()
        for place, (_, rank) in enumerate(slots):
            self.offsets[rank].append(place)

    def place(self, rank: int, number: int) -> int:
        """The place in the sequence of the member's slot with this number, both from 0."""
        rounds, rest = divmod(number, self.weights[rank])
        return rounds * self.total + self.offsets[rank][rest]

    def before(self, rank: int, place: int) -> int:
        """How many slots the member has before this place of the sequence."""
        rounds, rest = divmod(place, self.total)
        return rounds * self.weights[rank] + bisect_left(self.offsets[rank], rest)


def is_valid_distribution(weights: tuple[int, ...], members: int) -> bool:
    """Whether these weights are valid for this number of members. Weight 0 is not: it could not be ordered."""
    return len(weights) == members and min(weights) >= 1 and sum(weights) <= ROUND_MAX
