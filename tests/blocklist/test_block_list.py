"""The block list of a node: operations, expiry by its own clock, states, bytes from others."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import ProcessId
from qosweb.blocklist import block_list
from qosweb.blocklist.block_list import GRACE_S, PIECE_LEN, BlockList
from qosweb.blocklist.merge import HeldBlock
from qosweb.blocklist.operations import (
    BlockOperation,
    UnblockOperation,
    covers,
    decode_operation,
    encode_operation,
    parse_path,
    parse_target,
    prefix_of,
    shown_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ME = ProcessId("n1")
NETWORK = "203.0.113.0/24"


class Watched(BlockList):
    """A list with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.changes = 0
        super().__init__(lambda: self.now)
        self.on_change = self._changed

    def _changed(self) -> None:
        self.changes += 1

    def block(self, name: str, network: str = NETWORK, path: str = "", for_s: float = inf, age: float = 0.0) -> object:
        return self.apply(ME, encode_operation(BlockOperation(name, network, path, for_s, "why", "me", "n1", 5.0)), age)

    def unblock(self, network: str = NETWORK, path: str = "") -> object:
        return self.apply(ME, encode_operation(UnblockOperation(network, path)), 0.0)

    @property
    def names(self) -> list[str]:
        return sorted(held.block.id for held in self.listed(1000))


def test_requests_are_found_by_client_and_path() -> None:
    blocks = Watched()
    assert blocks.find("203.0.113.7", "/") is None
    assert blocks.block("1") == 1
    assert blocks.block("2", "203.0.113.7/32", "/shop") == 1
    assert blocks.block("3", "2001:db8::/32") == 1
    found = {
        (client, path): getattr(blocks.find(client, path), "id", None)
        for client in ("203.0.113.7", "203.0.113.8", "198.51.100.1", "2001:db8::5")
        for path in ("/", "/shop", "/shop/cart", "/shopping")
    }
    assert found[("203.0.113.7", "/shop")] == found[("203.0.113.7", "/shop/cart")] == "2"
    assert found[("203.0.113.7", "/shopping")] == found[("203.0.113.7", "/")] == "1"
    assert found[("203.0.113.8", "/shop")] == "1"
    assert found[("198.51.100.1", "/")] is None
    assert found[("2001:db8::5", "/")] == "3"
    assert blocks.affects("203.0.113.7")
    assert not blocks.affects("198.51.100.1")
    assert blocks.changes == 3


def test_an_unblock_removes_what_it_saw_and_blocking_again_is_new() -> None:
    blocks = Watched()
    blocks.block("1")
    blocks.block("2")
    blocks.block("3", path="/shop")
    assert blocks.unblock() == 2
    assert blocks.unblock() == 0
    assert blocks.names == ["3"]
    assert blocks.block("4") == 1
    assert blocks.names == ["3", "4"]
    assert blocks.block("1") == 1  # the unblock saw it, so it stays removed
    assert blocks.names == ["3", "4"]


def test_operations_that_change_the_list_are_told() -> None:
    blocks = Watched()
    told: list[BlockOperation | UnblockOperation] = []
    blocks.on_operation = told.append
    blocks.block("1")
    blocks.block("2", age=1.0)  # from the disk
    blocks.unblock()
    blocks.unblock()  # there is nothing left
    assert [type(one) for one in told] == [BlockOperation, UnblockOperation]


def test_two_sides_of_a_partition() -> None:
    one, other = Watched(), Watched()
    for side in (one, other):
        side.block("both")
        side.block("x", "198.51.100.0/24")
    one.unblock()
    other.block("again")  # the unblock on the other side did not see it
    one.block("timed", "192.0.2.1/32", for_s=60.0)
    other.unblock("198.51.100.0/24")
    states = [one.snapshot(), other.snapshot()]
    one.merge(states)
    other.merge(states[::-1])
    assert one.names == other.names == ["again", "timed"]
    assert one.digest() == other.digest()
    assert other.find("203.0.113.1", "/") is not None
    assert other.find("198.51.100.1", "/") is None
    other.now += 61.0
    assert other.find("192.0.2.1", "/") is None


def test_expiry_by_the_own_clock_and_the_longer_time_wins() -> None:
    one, other = Watched(), Watched()
    for side in (one, other):
        side.block("1", for_s=10.0)
    one.now += 4.0
    assert [held.left_s for held in one.listed(9)] == [6.0]
    one.merge([one.snapshot(), other.snapshot()])
    assert [held.left_s for held in one.listed(9)] == [10.0]
    one.now += 10.0
    assert one.find("203.0.113.1", "/") is None  # exact, without a sweep
    changes = one.changes
    one.sweep()
    assert (len(one), one.changes) == (0, changes + 1)
    one.merge([one.snapshot(), other.snapshot()])  # expired here, not there
    assert [held.left_s for held in one.listed(9)] == [10.0]


def test_deadlines_take_no_more_memory_with_each_merge() -> None:
    blocks = Watched()
    for name in "abc":
        blocks.block(name, for_s=1000.0)
    blocks.unblock()
    blocks.block("d", for_s=1000.0)
    for _ in range(20):
        state = blocks.snapshot()
        blocks.now += 1.0  # while it is on its way
        blocks.merge([state, Watched().snapshot()])
    assert len(blocks._due) == 4
    blocks.now += 1000.0 + GRACE_S
    blocks.sweep()
    assert (blocks._due, blocks.digest()) == ([], Watched().digest())


def test_a_removed_block_is_remembered_for_its_time_and_longer() -> None:
    one, other = Watched(), Watched()
    for side in (one, other):
        side.block("1", for_s=10.0)
    one.unblock()
    one.now += 10.0 + GRACE_S - 1.0
    one.sweep()
    one.merge([one.snapshot(), other.snapshot()])
    assert one.names == []
    one.now += 2.0
    one.sweep()
    assert one.digest() == Watched().digest()


def test_a_restart_knows_how_old_its_state_is() -> None:
    before = Watched()
    before.block("1", for_s=10.0)
    before.block("2", for_s=100.0)
    before.block("3")
    after = Watched()
    after.restore(before.snapshot(), 30.0)
    assert after.names == ["2", "3"]
    assert [held.left_s for held in after.listed(9)] == [70.0, inf]
    assert after.block("4", for_s=20.0, age=30.0) == 1  # replayed from the disk: its time is over
    assert after.names == ["2", "3"]


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_list, "LIST_LEN_MAX", 2)
    monkeypatch.setattr(block_list, "REMOVED_LEN_MAX", 1)
    blocks = Watched()
    blocks.block("1")
    blocks.block("2")
    assert "full" in str(blocks.block("3"))
    assert "too many" in str(blocks.unblock())
    assert blocks.names == ["1", "2"]


@given(st.binary(max_size=40))
def test_any_bytes_of_others(body: bytes) -> None:
    blocks = Watched()
    blocks.block("1")
    blocks.apply(ME, body, 0.0)
    blocks.merge([blocks.snapshot(), body])
    blocks.restore(body, 0.0)


@pytest.mark.parametrize(
    "operation",
    [
        BlockOperation("1", "203.0.113.7/24", "", inf, "", "", "", 0.0),
        BlockOperation("1", "203.0.113.7", "", inf, "", "", "", 0.0),
        BlockOperation("1", "1.2.3.4/033", "", inf, "", "", "", 0.0),
        BlockOperation("1", "2001:DB8::/32", "", inf, "", "", "", 0.0),
        BlockOperation("1", "nonsense", "", inf, "", "", "", 0.0),
        BlockOperation("", NETWORK, "", inf, "", "", "", 0.0),
        BlockOperation("1", NETWORK, "", 0.0, "", "", "", 0.0),
        BlockOperation("1", NETWORK, "", float("nan"), "", "", "", 0.0),
        UnblockOperation("::/129", ""),
        UnblockOperation(NETWORK, "/" + "x" * 2000),
    ],
)
def test_malformed_operations_change_nothing(operation: BlockOperation | UnblockOperation) -> None:
    body = msgspec.msgpack.encode(operation)
    assert decode_operation(body) is None
    blocks = Watched()
    assert "malformed" in str(blocks.apply(ME, body, 0.0))
    assert len(blocks) == blocks.changes == 0


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str))
def test_canonical_targets_have_a_prefix(text: str) -> None:
    network = parse_target(text)
    assert prefix_of(str(network)) is not None


def test_targets_and_paths_for_people() -> None:
    assert str(parse_target(" 203.0.113.7 ")) == "203.0.113.7/32"
    assert str(parse_target("::ffff:203.0.113.7")) == "203.0.113.7/32"
    assert str(parse_target("2001:DB8::/32")) == "2001:db8::/32"
    with pytest.raises(ValueError, match=r"the network is 10.0.0.0/8"):
        parse_target("10.0.0.1/8")
    with pytest.raises(ValueError, match="neither an address nor a network"):
        parse_target("example.org")
    assert [parse_path(path) for path in ("", "/", "/shop/", "/a/b")] == ["", "", "/shop", "/a/b"]
    for path in ("shop", "/a?b", "/" + "x" * 2000, "/a\n", "/a/../b", "/a%2Fb", "/a%zz", "/%FF", "/a%00"):
        with pytest.raises(ValueError, match="not a path"):
            parse_path(path)
    assert covers("", "/anything")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a%20b", "/a b"),  # as an address bar and the access log show it
        ("/a b", "/a b"),
        ("/caf%C3%A9/", "/caf\xe9"),
        ("/caf\xe9", "/caf\xe9"),
        ("//a///b", "/a/b"),
        ("/a%2520b", "/a%20b"),
        ("/what%3F", "/what?"),
    ],
)
def test_a_path_is_that_of_a_request(text: str, path: str) -> None:
    assert parse_path(text) == path
    assert parse_path(shown_path(path)) == path


COUNT = 3 * PIECE_LEN


def fill(blocks: BlockList) -> None:
    for number in range(COUNT):
        network = f"10.{number >> 8}.{number & 255}.0/24"
        blocks.apply(ME, encode_operation(BlockOperation(f"{number:016x}", network, "", 60.0, "", "", "n1", 0.0)), 0.0)


def found(blocks: BlockList) -> int:
    """How many of the blocks of `fill` are in the lookup."""
    return sum(blocks.affects(f"10.{number >> 8}.{number & 255}.1") for number in range(COUNT))


UNBLOCK_LAST = encode_operation(UnblockOperation("10.2.200.0/24", ""))


def test_new_blocks_after_a_partition_get_into_the_lookup_in_pieces() -> None:
    source = BlockList(lambda: 0.0)
    fill(source)
    turns: list[Callable[[], None]] = []
    changes: list[int] = []
    target = BlockList(lambda: 0.0, turns.append)
    target.on_change = lambda: changes.append(1)
    target.apply(ME, encode_operation(BlockOperation("f" * 16, NETWORK, "", 60.0, "", "", "n1", 0.0)), 0.0)
    target.merge([source.snapshot(), target.snapshot()])
    assert len(target) == COUNT + 1  # all of it at once
    assert found(target) == PIECE_LEN
    assert target.apply(ME, UNBLOCK_LAST, 0.0) == 1  # not in the lookup yet
    changes.clear()
    while turns:
        turns.pop()()
    assert changes
    assert found(target) == COUNT - 1


def test_a_newcomer_takes_the_list_in_pieces() -> None:
    now = [0.0]
    source = BlockList(lambda: now[0])
    fill(source)
    source.apply(ME, UNBLOCK_LAST, 0.0)
    state = source.snapshot()
    turns: list[Callable[[], None]] = []
    changes: list[int] = []
    newcomer = BlockList(lambda: now[0], turns.append)
    newcomer.on_change = lambda: changes.append(1)
    newcomer.merge([newcomer.snapshot(), state])
    assert newcomer.snapshot() == state  # for its disk, at once
    assert len(newcomer) == len(source)
    assert (found(newcomer), newcomer.is_arriving, changes) == (PIECE_LEN, True, [])
    now[0] += 20.0
    while turns:
        turns.pop()()
    assert (found(newcomer), newcomer.is_arriving, changes) == (COUNT - 1, False, [1])
    assert newcomer.digest() == source.digest()
    assert {held.left_s for held in newcomer.listed(COUNT)} == {40.0}
    now[0] += 41.0
    newcomer.sweep()
    assert len(newcomer) == 0


def test_an_operation_is_applied_to_all_that_has_arrived() -> None:
    source, turns = BlockList(lambda: 0.0), list[object]()
    fill(source)
    newcomer = BlockList(lambda: 0.0, turns.append)
    newcomer.merge([newcomer.snapshot(), source.snapshot()])
    for blocks in (newcomer, source):
        assert blocks.apply(ME, UNBLOCK_LAST, 0.0) == 1
    assert newcomer.digest() == source.digest()
    assert found(newcomer) == COUNT - 1


def test_the_list_of_a_newcomer_changes_nothing() -> None:
    turns: list[object] = []
    blocks = BlockList(lambda: 0.0, turns.append)
    fill(blocks)
    before, changes = blocks.listed(COUNT), list[int]()
    blocks.on_change = lambda: changes.append(1)
    blocks.merge([BlockList(lambda: 0.0).snapshot(), blocks.snapshot()])
    assert (blocks.listed(COUNT), changes, turns) == (before, [], [])


def test_malformed_blocks_of_a_state_are_left_out_by_all() -> None:
    good = HeldBlock(BlockOperation("1" * 16, NETWORK, "", 60.0, "", "", "n1", 0.0), 60.0)
    wrong: list[object] = [7, ["block"], msgspec.structs.replace(good, left_s="x")]
    state = msgspec.msgpack.encode(({"1" * 16: good, **{str(at): one for at, one in enumerate(wrong)}}, {}))
    lists = [BlockList(lambda: 0.0), BlockList(lambda: 0.0, list[object]().append)]
    for blocks in lists:
        blocks.merge([blocks.snapshot(), state])
        assert [held.block.id for held in blocks.listed(9)] == ["1" * 16]
    assert lists[0].digest() == lists[1].digest()
