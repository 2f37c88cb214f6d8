"""Merge rule of the block list. Pure.

When two components of a partitioned cluster meet, their lists are merged:

- A block operation survives unless either side holds an unblock that saw it. An unblock that saw an operation is kept
  as the id of that operation in ``removed``, because the other side may still have the operation.
- Blocking again is a new operation with a new id: an unblock that did not see it does not remove it.
- Each side counts down by its own clock. Where the remaining times differ, the longer one wins.
- An operation whose time is over is forgotten by each node for itself. That is not an unblock: on the other side it may
  have time left, and then it continues for that time.

So the merge is a union with maxima: of equal states it is that state, and neither order nor grouping matters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qosweb.blocklist.operations import BlockOperation

if TYPE_CHECKING:
    from collections.abc import Iterable


class HeldBlock(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A block in force, with the time that remains."""

    block: BlockOperation
    left_s: float


class ListState(msgspec.Struct, frozen=True, array_like=True):
    """A block list at one moment."""

    held: dict[str, HeldBlock]  # by id of the block
    removed: dict[str, float]  # ids that an unblock saw, and how long that has to be remembered


def merge(one: ListState, other: ListState) -> ListState:
    removed = dict(one.removed)
    for name, left_s in other.removed.items():
        removed[name] = max(left_s, removed.get(name, left_s))
    held = {name: found for name, found in one.held.items() if name not in removed}
    for name, found in other.held.items():
        if name not in removed:
            mine = held.get(name)
            if mine is None or (found.left_s, found.block) > (mine.left_s, mine.block):
                held[name] = found
    return ListState(held, removed)


def merge_all(states: Iterable[ListState]) -> ListState:
    merged: ListState | None = None
    for state in states:
        merged = state if merged is None else merge(merged, state)
    return merged or ListState({}, {})
