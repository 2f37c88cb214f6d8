"""Packed entries: packing, slicing, unpacking, and the check of received packs."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.entries import APPLICATION, CHECKPOINT, VIEW, Entry, Pack, pack, pack_bodies

ENTRIES = st.lists(
    st.builds(Entry, st.sampled_from((APPLICATION, CHECKPOINT, VIEW)), st.binary(max_size=300)), max_size=9
)


@given(ENTRIES)
def test_packed_entries_are_unpacked_unchanged(entries: list[Entry]) -> None:
    packed = pack(entries)
    assert packed.entries() == entries
    assert packed.bodies() == [entry.body for entry in entries]
    assert packed.count == len(entries)
    assert packed.is_sound


@given(ENTRIES, st.data())
def test_every_part_is_unpacked_unchanged(entries: list[Entry], data: st.DataObject) -> None:
    low = data.draw(st.integers(0, len(entries)))
    high = data.draw(st.integers(low, len(entries)))
    part = pack(entries).part(low, high)
    assert part == pack(entries[low:high])
    assert part.is_sound


def test_the_part_of_everything_is_not_a_copy() -> None:
    packed = pack_bodies([b"x", b"y"])
    assert packed.part(0, 2) is packed


@pytest.mark.parametrize(
    "other",
    [
        Pack(1, b""),
        Pack(0, b""),
        Pack(1, b"garbage"),
        Pack(2, pack_bodies([b"one"]).packed),
        Pack(1, pack_bodies([b"one", b"two"]).packed),
        Pack(-1, pack_bodies([]).packed),
        Pack(1, msgspec.msgpack.encode(["a text"])),
        Pack(1, msgspec.msgpack.encode({b"a": b"map"})),
        Pack(1, pack_bodies([b"one"]).packed + b"more"),
        Pack(1, pack_bodies([b"one"]).packed, ((1, CHECKPOINT),)),
        Pack(1, pack_bodies([b"one"]).packed, ((-1, CHECKPOINT),)),
        Pack(1, pack_bodies([b"one"]).packed, ((0, CHECKPOINT), (0, VIEW))),
        Pack(2, pack_bodies([b"one", b"two"]).packed, ((1, CHECKPOINT), (0, VIEW))),
        Pack(1, b"\xdd\xff\xff\xff\xff"),
    ],
)
def test_a_malformed_pack_is_detected(other: Pack) -> None:
    assert not other.is_sound
