"""Chooses how many slots each member gets in the adaptive order, from its recent send rate.

Paper: Chockler, Huleihel and Dolev, PODC 1998, section 6.1 (AP). The book-keeper is the lowest member of the view.
Departs:
- Weights are integers that add up to about `ROUND`, so that all members compute the same slots.
- The comparison takes place after every `N` messages. While the window is not full, the required difference of the
  shares is larger in proportion. So a single sender is detected after the first `N` messages; until then every message
  costs a null message of every other member. Null messages do not count as messages here.
- A member that sent nothing in a whole window keeps one slot of a round and no more, however little the shares changed:
  each unused slot costs a null message and a message delay. The member gets slots again when its share grows.

Weights equal to the shares are right where many messages are in flight at once: all members fill their slots in time.
Where messages are far apart, a message is delivered after a single message delay if its sender owns the next slot, and
otherwise after two. With shares s_i the former holds for sum(s_i^2) of the messages, and no weights do better than
max(s_i).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.settings import Settings

ROUND = 256  # approximate number of slots in one round


def weights_of(shares: list[float]) -> tuple[int, ...]:
    """Slots in a round for members with these shares of all messages. Every member gets at least one."""
    return tuple(max(1, round(share * ROUND)) for share in shares)


class WeightPolicy:
    """The sliding window of N * |v| messages, and the current distribution."""

    __slots__ = ("counts", "due", "epsilon", "last_shares", "members", "threshold", "window", "window_factor")

    def __init__(self, members: int, settings: Settings) -> None:
        self.members = members
        self.window_factor = settings.atop_window_factor  # N
        self.epsilon = settings.atop_epsilon
        self.threshold = settings.atop_threshold
        self.window: deque[int] = deque()
        self.counts = [0] * members  # N[r]
        self.last_shares = [1 / members] * members
        self.due = self.window_factor  # messages until the next comparison

    def on_message(self, rank: int) -> tuple[int, ...] | None:
        """Counts a message of this member. Returns the weights of a new distribution if one is due."""
        self.window.append(rank)
        self.counts[rank] += 1
        self.due -= 1
        full = self.window_factor * self.members
        if len(self.window) > full:
            self.counts[self.window.popleft()] -= 1
        if self.due:
            return None
        self.due = self.window_factor
        epsilon = self.epsilon * len(self.window) / full
        total = len(self.window) + self.members * epsilon
        shares = [(count + epsilon) / total for count in self.counts]
        difference = sum(abs(new - old) for new, old in zip(shares, self.last_shares, strict=True))
        if difference <= self.threshold * full / len(self.window) and not self._has_wasted_slots(full):
            return None
        self.last_shares = shares
        return weights_of(shares)

    def _has_wasted_slots(self, full: int) -> bool:
        """Whether a member that was silent for a whole window has more than the minimum number of slots."""
        return len(self.window) == full and any(
            not count and round(share * ROUND) > 1 for count, share in zip(self.counts, self.last_shares, strict=True)
        )
