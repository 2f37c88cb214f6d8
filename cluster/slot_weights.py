"""Adaptation policy: which weights fit the rates at which the members send.

Paper: Chockler, Huleihel and Dolev, PODC 1998, section 6.1 (AP). The book-keeper is the lowest member of the view.
Departs:
- Weights are integers that add up to about `ROUND`, so that all members compute the same slots.
- The comparison takes place after every `N` messages. While the window is not full, the shares have to differ by as
  much more as it is smaller: that one member sends everything is seen after the first `N` messages, and until it is
  seen every message costs a null message of every other member. Nulls are no messages here.
- A member that sent nothing in a whole window keeps one slot of a round and no more, however little the shares differ
  from what they were: each slot that it does not use costs a null message and a message delay. It gets slots again when
  the shares say so.

Weights equal to the shares are right where many messages are under way at once: everybody fills its slots in time.
Where messages are far apart, one is delivered after a single message delay if its sender owns the next slot, and
otherwise after two; with shares s_i the former holds for sum(s_i^2) of them, and no weights do better than max(s_i).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.settings import Settings

ROUND = 256  # slots that are dealt to the members in one round, about


def in_slots(shares: list[float]) -> tuple[int, ...]:
    """Slots in a round for members that send these shares of all messages. Nobody is without."""
    return tuple(max(1, round(share * ROUND)) for share in shares)


class WeightPolicy:
    """The sliding window of N * |v| messages, and the distribution that was last given out."""

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

    def note(self, rank: int) -> tuple[int, ...] | None:
        """A message of this member came in. The weights of a new distribution, if it is time for one."""
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
        if difference <= self.threshold * full / len(self.window) and not self._wasted(full):
            return None
        self.last_shares = shares
        return in_slots(shares)

    def _wasted(self, full: int) -> bool:
        """Whether one who was silent for a whole window has slots to give up, more than everybody has to have."""
        return len(self.window) == full and any(
            not count and round(share * ROUND) > 1 for count, share in zip(self.counts, self.last_shares, strict=True)
        )
