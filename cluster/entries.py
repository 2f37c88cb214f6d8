"""Packed entries: a batch of entries as one value, in the bytes used on the wire and on disk.

A member does little with an entry: it stores it, forwards it and applies it once. So the labelling process packs
entries, and they are unpacked only where they are applied. On the wire, in the log and on disk hundreds of them are one
value. Nearly all entries belong to the application; the kinds of the others are listed separately.
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
    """A batch of packed entries. Keeps the unpacked entries cached once it was packed or checked."""

    count: int
    packed: bytes  # msgpack: an array of `count` byte strings
    others: tuple[tuple[int, str], ...] = ()  # index and kind of each entry that is not APPLICATION

    def bodies(self) -> Sequence[bytes]:
        return self.__dict__.pop(UNPACKED, None) or _decode(self.packed)

    def entries(self) -> list[Entry]:
        entries = [Entry(APPLICATION, body) for body in self.bodies()]
        for place, kind in self.others:
            entries[place] = Entry(kind, entries[place].body)
        return entries

    def part(self, low: int, high: int) -> Pack:
        """The entries low, low + 1, ..., high - 1."""
        if low == 0 and high == self.count:
            return self
        others = tuple((place - low, kind) for place, kind in self.others if low <= place < high)
        return pack_bodies(self.bodies()[low:high], others)

    @property
    def is_sound(self) -> bool:
        """Whether the packed bytes match the header. A pack from another process may be malformed."""
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
