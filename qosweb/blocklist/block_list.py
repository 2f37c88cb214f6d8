"""Block list of a node: a replica of the shared list, with the lookup that decides whether a request is refused.

Implements `cluster.SharedObject`: operations and states come from the interim service of the cluster. Time limits count
by the clock of this node; states carry the time that remains. A newcomer takes the list of the others piece by piece,
so that it serves requests meanwhile; after a partition, new blocks get into the lookup piece by piece.
Above: `server.cluster.block_service`.  Below: `merge`, `prefix_table`.
"""

from __future__ import annotations

from hashlib import blake2b
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from math import inf
from typing import TYPE_CHECKING

import msgspec

from qosweb.blocklist.arriving_state import ArrivingState, packed_state_of
from qosweb.blocklist.merge import HeldBlock, ListState, merge_all
from qosweb.blocklist.operations import AnyOperation, BlockOperation, covers, decode_operation, prefix_of
from qosweb.blocklist.prefix_table import PrefixTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster import ProcessId

    Later = Callable[[Callable[[], None]], object]

LIST_LEN_MAX = 100_000  # blocks in force
REMOVED_LEN_MAX = 200_000  # blocks that were removed and are remembered
PIECE_LEN = 250  # blocks that get into the lookup in one turn of the event loop, some milliseconds
GRACE_S = 600.0  # how long a removed block is remembered beyond its own time limit

AS_IT_CAME_S = 0.05  # how long a state that came is the snapshot: the times in it may be wrong by so much

_encode = msgspec.msgpack.Encoder().encode


class _BlockInForce:
    """A block that this node enforces until its deadline, on the clock of the list."""

    __slots__ = ("block", "deadline")

    def __init__(self, block: BlockOperation, deadline: float) -> None:
        self.block = block
        self.deadline = deadline


class BlockList:
    """The blocks in force at this node."""

    def __init__(self, clock: Callable[[], float], later: Later | None = None) -> None:
        """`clock`: a monotonic clock in seconds. `later`: runs a function soon; None: nothing is put off."""
        self._clock = clock
        self._later = later
        self._held: dict[str, _BlockInForce] = {}
        self._removed: dict[str, float] = {}  # deadlines
        self._unindexed: dict[str, _BlockInForce] = {}  # held, but not in the table yet
        self._table: PrefixTable[tuple[_BlockInForce, ...]] = PrefixTable()
        self._is_indexing = False
        self._arriving: ArrivingState | None = None
        self._due: list[tuple[float, str]] = []  # deadlines of held and removed blocks
        self.on_change: Callable[[], None] = lambda: None
        self.on_operation: Callable[[AnyOperation], None] = lambda _: None  # one that changed the list now

    def __len__(self) -> int:
        return len(self._held) + (0 if self._arriving is None else self._arriving.held_left)

    @property
    def is_arriving(self) -> bool:
        """Whether blocks of a state that came are still to be taken into the list."""
        return self._arriving is not None

    # ---- lookup

    def affects(self, client: str) -> bool:
        """Whether some request of this client may be refused."""
        return self._table.longest(client) is not None

    def find(self, client: str, path: str) -> BlockOperation | None:
        """The block that refuses this request: of the longest prefix, if there are several."""
        if not self._held:
            return None
        now = self._clock()
        for blocks in self._table.matches(client):
            for one in blocks:
                if one.deadline > now and covers(one.block.path, path):
                    return one.block
        return None

    def listed(self, count_max: int) -> list[HeldBlock]:
        """The blocks that came last, with the remaining times, newest first."""
        now = self._clock()
        last = islice(reversed(self._held.values()), count_max)
        found = [HeldBlock(one.block, one.deadline - now) for one in last if one.deadline > now]
        return sorted(found, key=lambda held: (-held.block.at_s, held.block.id))

    def sweep(self) -> None:
        """Forget blocks whose time is over."""
        now, changed = self._clock(), False
        while self._due and self._due[0][0] <= now:
            _, name = heappop(self._due)
            one = self._held.get(name)
            if one is not None and one.deadline <= now:
                self._drop(name)
                changed = True
            if self._removed.get(name, inf) <= now:
                del self._removed[name]
        if changed:
            self.on_change()

    # ---- cluster.SharedObject

    def apply(self, origin: ProcessId, body: bytes, age: float) -> object:  # noqa: ARG002
        """Returns the number of blocks added or removed, or a text that says why nothing was changed."""
        self._take_all()
        operation = decode_operation(body)
        if operation is None:
            return "the operation is malformed"
        if isinstance(operation, BlockOperation):
            done = self._block(operation, age)
        else:
            done = self._unblock(operation.network, operation.path)
        if isinstance(done, int) and done and not age:
            self.on_operation(operation)
        return done

    def _block(self, block: BlockOperation, age: float) -> int | str:
        if len(self._held) >= LIST_LEN_MAX:
            return f"the list is full: it has {len(self._held):,} entries"
        if block.id not in self._removed and block.for_s > age:
            self._hold(block, self._clock() + block.for_s - age)
            self.on_change()
        return 1

    def _unblock(self, network: str, path: str) -> int | str:
        prefix = prefix_of(network)
        assert prefix is not None
        found = [*(self._table.get(prefix) or ())]
        found += [one for one in self._unindexed.values() if one.block.network == network]
        names = sorted(one.block.id for one in found if one.block.path == path)
        if len(self._removed) + len(names) > REMOVED_LEN_MAX:
            return f"too many blocks were removed: {len(self._removed):,} are remembered"
        for name in names:
            deadline = self._held[name].deadline + GRACE_S
            self._drop(name)
            self._remember_removed(name, deadline)
        if names:
            self.on_change()
        return len(names)

    def snapshot(self) -> bytes:
        arriving = self._arriving
        if arriving is not None and self._clock() - arriving.at <= AS_IT_CAME_S:
            return arriving.state
        self._take_all()
        return _encode(self._state())

    def _state(self) -> ListState:
        now = self._clock()
        return ListState(
            {name: HeldBlock(one.block, one.deadline - now) for name, one in self._held.items()},
            {name: deadline - now for name, deadline in self._removed.items()},
        )

    def restore(self, state: bytes, age: float) -> None:
        self._take_all()
        self._replace(packed_state_of(state).unpack(), age)

    def merge(self, states: Sequence[bytes]) -> None:
        """The merge of these states. One of them is of this list, or of a member with the same operations."""
        self._take_all()
        found = [(state, packed) for state in states if (packed := packed_state_of(state))]
        if len(found) == 1 and self._later is not None:  # lists without an entry do not count
            state, packed = found[0]
            if not self._held and not self._removed:
                self._arriving = ArrivingState(state, packed, self._clock())
                self._go_on()
                return
            if packed.held.keys() == self._held.keys() and packed.removed.keys() == self._removed.keys():
                return  # a newcomer's list was merged into this one
        self._replace(merge_all([packed.unpack() for _, packed in found]), 0.0)

    def digest(self) -> str:
        """The same for lists with the same operations, whatever times remain."""
        self._take_all()
        names = " ".join((*sorted(self._held), "-", *sorted(self._removed)))
        return f"{len(self._held)}:{blake2b(names.encode(), digest_size=8).hexdigest()}"

    # ---- content

    def _replace(self, state: ListState, age: float) -> None:
        """Replace the content. What stays is not touched: most of a long list is the same on both sides."""
        now = self._clock() - age
        for name in self._held.keys() - state.held.keys():
            self._drop(name)
        for name, held in state.held.items():
            one = self._held.get(name)
            if held.left_s <= age:
                if one is not None:
                    self._drop(name)
                continue
            deadline = now + held.left_s
            if one is None:
                self._held[name] = self._unindexed[name] = _BlockInForce(held.block, deadline)
            else:
                one.deadline = deadline
        self._removed = {name: now + left_s for name, left_s in state.removed.items() if left_s > age}
        deadlines = chain(((name, one.deadline) for name, one in self._held.items()), self._removed.items())
        self._due = [(deadline, name) for name, deadline in deadlines if deadline != inf]
        heapify(self._due)
        self._go_on()

    def _take_all(self) -> None:
        """Take the part of the state that has arrived, before the list is compared or changed."""
        while self._arriving is not None:
            self._take_piece(self._arriving)

    def _take_piece(self, arriving: ArrivingState) -> None:
        held, removed = arriving.take(PIECE_LEN)
        if not arriving.left:
            self._arriving = None
        passed_s = self._clock() - arriving.at
        for _, one in held:
            if one.left_s > passed_s:
                self._hold(one.block, arriving.at + one.left_s)
        for name, left_s in removed:
            if left_s > passed_s:
                self._remember_removed(name, arriving.at + left_s)

    def _hold(self, block: BlockOperation, deadline: float) -> None:
        one = self._held.get(block.id)
        if one is not None:
            one.deadline = deadline
        else:
            one = self._held[block.id] = _BlockInForce(block, deadline)
            self._index(one)
        if deadline != inf:
            heappush(self._due, (deadline, block.id))

    def _index(self, one: _BlockInForce) -> None:
        prefix = prefix_of(one.block.network)
        if prefix is None:  # malformed: all nodes judge alike
            del self._held[one.block.id]
        else:
            self._table.put(prefix, (*(self._table.get(prefix) or ()), one))

    def _go_on(self) -> None:
        """Take or index blocks: all of them, or some and the others later."""
        self._is_indexing = False
        if self._later is None:
            self._take_all()
        elif self._arriving is not None:
            self._take_piece(self._arriving)
        for name in [*islice(self._unindexed, None if self._later is None else PIECE_LEN)]:
            self._index(self._unindexed.pop(name))
        if self._later is None or not (self._unindexed or self._arriving):
            self.on_change()
        elif not self._is_indexing:
            self._is_indexing = True
            self._later(self._go_on)

    def _drop(self, name: str) -> None:
        one = self._held.pop(name)
        if self._unindexed.pop(name, None) is not None:
            return
        prefix = prefix_of(one.block.network)
        assert prefix is not None
        others = tuple(other for other in self._table.get(prefix) or () if other is not one)
        if others:
            self._table.put(prefix, others)
        else:
            self._table.remove(prefix)

    def _remember_removed(self, name: str, deadline: float) -> None:
        self._removed[name] = deadline
        if deadline != inf:
            heappush(self._due, (deadline, name))
