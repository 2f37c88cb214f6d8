"""Replicas that differ: which state counts, and who gives its own up.

A replicated state machine is deterministic, so states at one position are equal. Where they are not (a machine that
looks at a clock, a bit that flipped) the order itself is still right; a state is wrong. Digests of states go through
the order, so all members see the same digests in the same places and come to the same verdict from them.

- The state that counts is that of a quorum of the view (`primary.is_quorum`); without one, that of its lowest member.
  That is a convention: nobody can tell which state is right, only which one all will have.
- Of those who have another one, the highest-ranked gives its state up: it starts anew as a process that nobody knows,
  with nothing, and gets everything from the others, as one that lost its disk.
- One at a time. Who starts anew forgets what it acknowledged, so it must be one that the others can spare: the rest of
  a view of two or more is a quorum of it when its highest member goes, or any one of three or more. In a view of two it
  is always the higher one that goes: the lower one is a quorum of the two. The next one goes when the digests of a view
  without this one have been compared.

What does not hold: answers that a wrong replica gave before it was found out stay given. And as with a lost disk, who
goes must not be the last who has something: everything confirmed is with all members of its view, so that takes the
loss of all others at the same time.
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
    digest: str  # of the state that counts
    kept: tuple[ProcessId, ...]  # who has it
    wrong: ProcessId  # who starts anew


def judge_states(view: View, said: Mapping[ProcessId, str]) -> DivergenceVerdict | None:
    """None as long as not all members have said what their state is, and when all states are equal."""
    if any(member not in said for member in view.members):
        return None
    holders: dict[str, list[ProcessId]] = defaultdict(list)
    for member in view.members:
        holders[said[member]].append(member)
    if len(holders) == 1:
        return None
    lowest = said[view.members[0]]
    digest = next((each for each in holders if is_quorum(holders[each], view)), lowest)
    wrong = next(member for member in reversed(view.members) if said[member] != digest)
    return DivergenceVerdict(digest, tuple(holders[digest]), wrong)
