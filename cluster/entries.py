"""Entries that travel together, side by side as the bytes in which they travel and lie on disk.

A member does little with an entry: it keeps it, hands it on and, once, applies it. So entries are packed by whoever
labels them and unpacked where they are applied; on their way, in the log and on disk hundreds of them are one value.
Nearly all of them are the application's: of the others it is said which they are.
Above: messages, runs of the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode

APPLICATION = "a"
VIEW = "v"
CHECKPOINT = "c"
UNPACKED = "unpacked"


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One element of the total order."""

    kind: str  # APPLICATION, VIEW or CHECKPOINT
    body: bytes


class Pack(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """Who packed it, or looked whether it is sound, has it unpacked: that is kept for the one who applies it."""

    count: int
    packed: bytes  # msgpack: an array of `count` byte strings
    others: tuple[tuple[int, str], ...] = ()  # place and kind of those that are not of the kind APPLICATION

    def bodies(self) -> Sequence[bytes]:
        return self.__dict__.pop(UNPACKED, None) or _decode(self.packed)

    def entries(self) -> list[Entry]:
        entries = [Entry(APPLICATION, body) for body in self.bodies()]
        for place, kind in self.others:
            entries[place] = Entry(kind, entries[place].body)
        return entries

    def part(self, low: int, high: int) -> Pack:
        """Its entries low, low + 1, ..., high - 1."""
        if low == 0 and high == self.count:
            return self
        others = tuple((place - low, kind) for place, kind in self.others if low <= place < high)
        return pack_bodies(self.bodies()[low:high], others)

    @property
    def is_sound(self) -> bool:
        """Whether it holds what it says. One that came from another process may not."""
        try:
            bodies = _decode(self.packed)
        except msgspec.MsgspecError:
            return False
        if len(bodies) != self.count:
            return False
        self.__dict__[UNPACKED] = bodies
        places = [place for place, _ in self.others]
        return not places or (places == sorted(set(places)) and places[0] >= 0 and places[-1] < self.count)


def pack_bodies(bodies: Sequence[bytes], others: tuple[tuple[int, str], ...] = ()) -> Pack:
    packed = Pack(len(bodies), _encode(bodies), others)
    packed.__dict__[UNPACKED] = bodies
    return packed


def pack(entries: Sequence[Entry]) -> Pack:
    others = tuple((place, entry.kind) for place, entry in enumerate(entries) if entry.kind != APPLICATION)
    return pack_bodies([entry.body for entry in entries], others)
