"""State machine of `python -m cluster node`: counts entries and keeps a hash chain of them.

Equal states mean equal histories.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from cluster.names import ProcessId, View


class _CounterState(msgspec.Struct, array_like=True):
    count: int
    chain: bytes


class CounterMachine:
    """The replicated counter."""

    __slots__ = ("chain", "count")

    def __init__(self) -> None:
        self.count = 0
        self.chain = b""

    def apply(self, position: int, origin: ProcessId, body: bytes) -> object:
        """Returns the number of the entry."""
        self.count += 1
        self._link(b"%d %s.%d " % (position, origin.name.encode(), origin.incarnation) + body)
        return self.count

    def view_changed(self, position: int, view: View) -> None:
        self._link(b"%d %d:%s" % (position, view.id.epoch, view.id.digest.encode()))

    def _link(self, text: bytes) -> None:
        self.chain = blake2b(self.chain + text, digest_size=16).digest()

    def query(self, body: bytes) -> bytes:
        """The count, for any query. A query "fail" raises an exception."""
        if body == b"fail":
            raise ValueError("asked to fail")
        return b"%d" % self.count

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_CounterState(self.count, self.chain))

    def restore(self, state: bytes) -> None:
        found = msgspec.msgpack.decode(state, type=_CounterState)
        self.count, self.chain = found.count, found.chain
