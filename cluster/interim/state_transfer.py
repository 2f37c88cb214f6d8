"""State transfer of the interim service: sends this replica's state in chunks and reassembles the states of others."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cluster.messages import StMsg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.names import ProcessId

STATE_BYTES_MAX = 256 * 1024 * 1024  # of one state; a peer that sends more violates the protocol


class StateSender:
    """A state on its way to the members of the view: the chunks to send, and the chunks that some member lacks."""

    __slots__ = ("_chunk_bytes", "_chunks", "_members", "_next", "_state", "in_flight")

    def __init__(self, members: tuple[ProcessId, ...], state: bytes, chunk_bytes: int) -> None:
        self._members = members
        self._state = state
        self._chunk_bytes = chunk_bytes
        self._chunks = max(1, -(-len(state) // chunk_bytes))
        self._next = 0
        self.in_flight: deque[int] = deque()  # places of the sent chunks among the messages of this process

    @property
    def is_done(self) -> bool:
        return self._next == self._chunks

    def received_by_all(self, count: int) -> None:
        """All members have the first `count` messages of this process."""
        while self.in_flight and self.in_flight[0] <= count:
            self.in_flight.popleft()

    def next_chunk(self) -> StMsg:
        start = self._next * self._chunk_bytes
        self._next += 1
        chunk = self._state[start : start + self._chunk_bytes]
        return StMsg(self._members, self._next - 1, self._chunks, chunk)


class _Incoming:
    """The chunks of one state so far."""

    __slots__ = ("chunks", "members", "parts", "size")

    def __init__(self, members: tuple[ProcessId, ...], chunks: int) -> None:
        self.members = members
        self.chunks = chunks
        self.parts: list[bytes] = []
        self.size = 0


class StatesReceived:
    """StatesV and States_Await: the states that arrived in a view, and the members whose state is still missing."""

    __slots__ = ("_incoming", "awaited", "states")

    def __init__(self, members: tuple[ProcessId, ...]) -> None:
        self._incoming: dict[ProcessId, _Incoming] = {}
        self.awaited = set(members)  # States_Await
        self.states: dict[ProcessId, bytes] = {}  # StatesV, by the lowest of the members that have the state

    def add(self, sender: ProcessId, message: StMsg) -> str:
        """Add a chunk. Returns the fault in it; empty if it is valid. All members judge a chunk alike."""
        incoming = self._incoming.get(sender)
        if incoming is None:
            members = message.members
            if not members or min(members) != sender or not self.awaited.issuperset(members):
                return f"a state of {', '.join(map(str, members))}, which are not members whose state is missing"
            incoming = self._incoming[sender] = _Incoming(members, message.chunks)
        incoming.size += len(message.state)
        if (
            (message.members, message.chunks) != (incoming.members, incoming.chunks)
            or message.chunk != len(incoming.parts)
            or message.chunk >= message.chunks
            or incoming.size > STATE_BYTES_MAX
        ):
            return f"chunk {message.chunk} of {message.chunks} does not continue its state"
        incoming.parts.append(message.state)
        if len(incoming.parts) == incoming.chunks and sender not in self.states:
            self.states[sender] = b"".join(incoming.parts)
            incoming.parts = [b""] * incoming.chunks
            self.awaited.difference_update(incoming.members)
        return ""

    @property
    def is_complete(self) -> bool:
        return not self.awaited

    def in_order(self) -> Sequence[bytes]:
        return [self.states[sender] for sender in sorted(self.states)]
