"""Golden bytes of the operations and states of the block list: they cross sockets and stay on disks."""

from __future__ import annotations

from math import inf
from pathlib import Path

import msgspec

from qosweb.blocklist.merge import HeldBlock, ListState
from qosweb.blocklist.operations import BlockOperation, UnblockOperation, decode_operation, encode_operation
from tests.support.golden import Case, check

DATA = Path(__file__).parent / "data"
BLOCK = BlockOperation("0a1b", "203.0.113.0/24", "/shop", 3600.0, "attack", "ops@host", "n1", 1_700_000_000.5)
STATE = ListState({"0a1b": HeldBlock(BLOCK, 12.5)}, {"0c": inf})


def test_operations_and_states(write_golden: bool) -> None:
    cases = {
        "block": Case(BLOCK, encode_operation, decode_operation),
        "unblock": Case(
            UnblockOperation("2001:db8::/32", "/shop", "ops@host", "n1"), encode_operation, decode_operation
        ),
        "state": Case(STATE, msgspec.msgpack.encode, msgspec.msgpack.Decoder(ListState).decode),
    }
    check(DATA / "blocks.txt", cases, write=write_golden)


def test_an_unblock_that_does_not_say_who_and_where() -> None:
    assert decode_operation(b"\x93\xa7unblock\xad2001:db8::/32\xa0") == UnblockOperation("2001:db8::/32", "")
