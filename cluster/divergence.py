"""Divergence of replicas: decides which state is kept and which replica discards its own.

A replicated state machine is deterministic, so states at the same position are equal. If they are not (a machine that
reads a clock, a flipped bit), the order itself is still correct and one of the states is wrong. Digests of states go
through the total order, so all members see the same digests at the same positions and reach the same verdict.

- The state to keep is that of a quorum of the view (`primary.is_quorum`). Without such a quorum it is that of the
  lowest-ranked member. This is a convention: no member can tell which state is right, only which state all will have.
- Of the members with another state, the highest-ranked one discards its state. It starts anew as an unknown process
  with no state and gets everything from the others, like a node that lost its disk.
- One member at a time. A member that starts anew forgets what it acknowledged, so the others must be able to spare it.
  The rest of a view of two or more is a quorum of the view when its highest-ranked member goes; in a view of three or
  more this holds for any one member. In a view of two it is always the higher-ranked member that goes: the lower one is
  a quorum of the two. The next member goes when the digests of a view without this one have been compared.

What does not hold: responses that a wrong replica sent before it was detected cannot be taken back. And as with a lost
disk, the discarded replica must not be the last one that has some entry. Every confirmed entry is at all members of its
view, so that would take the loss of all other members at the same time.
Paper: none.
Above: replica.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from cluster.names import ProcessId, View
from cluster.primary import is_quorum

if TYPE_CHECKING:
    from collections.abc import Mapping


class DivergenceVerdict(msgspec.Struct, frozen=True):
    digest: str  # of the state to keep
    kept: tuple[ProcessId, ...]  # the members that have this state
    wrong: ProcessId  # the member that starts anew


def judge_states(view: View, digests: Mapping[ProcessId, str]) -> DivergenceVerdict | None:
    """Returns the verdict, or None while digests of members are missing or if all states are equal."""
    if any(member not in digests for member in view.members):
        return None
    holders: dict[str, list[ProcessId]] = defaultdict(list)
    for member in view.members:
        holders[digests[member]].append(member)
    if len(holders) == 1:
        return None
    lowest = digests[view.members[0]]
    digest = next((each for each in holders if is_quorum(holders[each], view)), lowest)
    wrong = next(member for member in reversed(view.members) if digests[member] != digest)
    return DivergenceVerdict(digest, tuple(holders[digest]), wrong)
