"""Decodes a received state of the block list in pieces: a long one at once would stop the node for too long.

Its outer level is decoded at once, each block when its turn comes. Blocks that are malformed are left out; all nodes
judge alike.
Above: `block_list`.  Below: `merge` has the format.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from qosweb.blocklist.merge import HeldBlock, ListState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class PackedState(msgspec.Struct, frozen=True, array_like=True):
    """A `ListState` whose blocks are not decoded."""

    held: dict[str, msgspec.Raw]
    removed: dict[str, float]

    def __bool__(self) -> bool:
        return bool(self.held or self.removed)

    def unpack(self) -> ListState:
        return ListState(dict(_unpacked(self.held.items())), self.removed)


_decode_packed = msgspec.msgpack.Decoder(PackedState).decode
_decode_held = msgspec.msgpack.Decoder(HeldBlock).decode
EMPTY = PackedState({}, {})


def packed_state_of(state: bytes) -> PackedState:
    """The state in these bytes; empty if they are malformed. All nodes judge alike."""
    try:
        return _decode_packed(state)
    except msgspec.MsgspecError:
        return EMPTY


class ArrivingState:
    """The blocks and removed blocks that are still to be taken."""

    def __init__(self, state: bytes, packed: PackedState, at: float) -> None:
        self.state = state  # while nothing has changed since `at`, it is the snapshot of the list
        self.at = at
        self.left = len(packed.held) + len(packed.removed)
        self.held_left = len(packed.held)
        self._held = iter(packed.held.items())
        self._removed = iter(packed.removed.items())

    def take(self, count: int) -> tuple[list[tuple[str, HeldBlock]], list[tuple[str, float]]]:
        """The next blocks, or the next removed blocks once there are none."""
        packed = [*islice(self._held, count)]
        self.held_left -= len(packed)
        removed = [*islice(self._removed, count - len(packed))]
        self.left -= len(packed) + len(removed)
        return [*_unpacked(packed)], removed


def _unpacked(packed: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[tuple[str, HeldBlock]]:
    for name, raw in packed:
        with suppress(msgspec.MsgspecError):
            held = _decode_held(raw)
            if held.block.id == name:
                yield name, held
