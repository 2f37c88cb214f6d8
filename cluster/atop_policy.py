"""Adaptation policy: which weights fit the rates at which the members send.

Paper: Chockler, Huleihel and Dolev, PODC 1998, section 6.1 (AP). The book-keeper is the lowest member of the view.
Departs:
- Weights are integers of a fixed sum, so that all members compute the same slots.
- Shares are sharpened before slots are dealt: the weight of a member is its share to the power of `sharpness`. See
  `sharpened`.
- The comparison takes place after every `N` messages, from the first full window on. Nulls are no messages here.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.settings import Settings

ROUND = 256  # slots that are dealt to the members in one round, about


def sharpened(shares: list[float], sharpness: float) -> tuple[int, ...]:
    """Slots in a round for members that send these shares of all messages.

    A message is delivered after one message delay where its sender owns the next slot; otherwise those who own slots
    before it have to give them up, which takes one delay more. If the senders follow each other at random with shares
    s_i and the slots with weights w_i, the next slot is the right one with probability sum(s_i * w_i). Weights equal to
    the shares (the paper's) give sum(s_i^2); all weight on the largest share gives max(s_i), the best there is, but
    makes everybody else wait for that one member under any load. A power between the two has most of both.
    """
    powers = [share**sharpness for share in shares]
    scale = ROUND / sum(powers)
    return tuple(max(1, round(power * scale)) for power in powers)


class BookKeeper:
    """The sliding window of N * |v| messages, and the distribution that was last given out."""

    __slots__ = (
        "counts",
        "due",
        "epsilon",
        "last_shares",
        "members",
        "sharpness",
        "threshold",
        "window",
        "window_factor",
    )

    def __init__(self, members: int, settings: Settings) -> None:
        self.members = members
        self.window_factor = settings.atop_window_factor  # N
        self.epsilon = settings.atop_epsilon
        self.threshold = settings.atop_threshold
        self.sharpness = settings.atop_sharpness
        self.window: deque[int] = deque()
        self.counts = [0] * members  # N[r]
        self.last_shares = [1 / members] * members
        self.due = self.window_factor * members  # messages until the next comparison

    def note(self, rank: int) -> tuple[int, ...] | None:
        """A message of this member came in. The weights of a new distribution, if it is time for one."""
        self.window.append(rank)
        self.counts[rank] += 1
        self.due -= 1
        if len(self.window) > self.window_factor * self.members:
            self.counts[self.window.popleft()] -= 1
        if self.due:
            return None
        self.due = self.window_factor
        total = self.members * (self.window_factor + self.epsilon)
        shares = [(count + self.epsilon) / total for count in self.counts]
        if sum(abs(new - old) for new, old in zip(shares, self.last_shares, strict=True)) <= self.threshold:
            return None
        self.last_shares = shares
        return sharpened(shares, self.sharpness)
