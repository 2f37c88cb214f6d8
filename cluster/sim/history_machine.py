"""State machine of simulated replicas: the history of entries and its hash chain.

Equal states mean equal histories, so replicas with equal digests applied the same entries in the same order.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from cluster.names import ProcessId, View


class _HistoryState(msgspec.Struct, array_like=True):
    count: int
    chain: bytes
    bodies: list[bytes]


class History:
    """Accepts any entry. `bodies` keeps the applied entries, unless the run is too long for that."""

    __slots__ = ("bodies", "chain", "count", "keep_bodies")

    def __init__(self, *, keep_bodies: bool = True) -> None:
        self.keep_bodies = keep_bodies
        self.count = 0
        self.chain = b""
        self.bodies: list[bytes] = []

    def apply(self, position: int, origin: ProcessId, body: bytes) -> object:
        """Returns the number of the entry in this history."""
        self._link(b"%d %s.%d " % (position, origin.name.encode(), origin.incarnation) + body)
        if self.keep_bodies:
            self.bodies.append(body)
        return self.count

    def view_changed(self, position: int, view: View) -> None:
        self._link(b"%d %d:%s" % (position, view.id.epoch, view.id.digest.encode()))

    def query(self, body: bytes) -> bytes:
        """The answer of the data service: it depends on the query and on the whole history."""
        return b"%s: %d %s" % (body, self.count, self.chain.hex().encode())

    def _link(self, text: bytes) -> None:
        self.chain = blake2b(self.chain + text, digest_size=16).digest()
        self.count += 1

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_HistoryState(self.count, self.chain, self.bodies))

    def restore(self, state: bytes) -> None:
        found = msgspec.msgpack.decode(state, type=_HistoryState)
        self.count, self.chain, self.bodies = found.count, found.chain, found.bodies

    def digest(self) -> str:
        return f"{self.count}:{self.chain.hex()}"
