"""Shared object of simulated processes: a journal whose every state and result depends on the order of operations."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.names import ProcessId


class _JournalState(msgspec.Struct, array_like=True):
    count: int
    chain: bytes
    bodies: list[bytes]


def _decode(state: bytes) -> _JournalState:
    """The state in these bytes. Malformed bytes give the empty state, the same at all replicas."""
    try:
        return msgspec.msgpack.decode(state, type=_JournalState)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _JournalState(0, b"", [])


class Journal:
    """A hash chain over the operations, and the set of them. A merge of different states begins a new chain."""

    __slots__ = ("bodies", "chain", "count")

    def __init__(self) -> None:
        self.count = 0
        self.chain = b""
        self.bodies: set[bytes] = set()

    def apply(self, origin: ProcessId, body: bytes, age: float) -> object:  # noqa: ARG002
        """Returns the number of the operation and a digest of everything up to it."""
        self.chain = blake2b(self.chain + str(origin).encode() + b" " + body, digest_size=8).digest()
        self.count += 1
        self.bodies.add(body)
        return f"{self.count}:{self.chain[:3].hex()}"

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_JournalState(self.count, self.chain, sorted(self.bodies)))

    def restore(self, state: bytes, age: float) -> None:  # noqa: ARG002
        found = _decode(state)
        self.count, self.chain, self.bodies = found.count, found.chain, set(found.bodies)

    def merge(self, states: Sequence[bytes]) -> None:
        different = sorted(set(states))
        self.restore(different[0], 0.0)
        for state in different[1:]:
            other = _decode(state)
            self.count = max(self.count, other.count)
            self.bodies.update(other.bodies)
        if len(different) > 1:
            self.chain = blake2b(b"".join(different), digest_size=8).digest()

    def digest(self) -> str:
        return f"{self.count}:{self.chain.hex()}:{len(self.bodies)}"

    def __contains__(self, body: bytes) -> bool:
        return body in self.bodies
