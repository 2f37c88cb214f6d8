"""Shared object of `python -m cluster node --notes`: a growing set of notes. A merge is the union."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.names import ProcessId

MANY = b"*"  # an operation "*COUNT TEXT" adds that many notes
MANY_MAX = 1_000_000

_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class SharedNotes:
    """A set of notes."""

    def __init__(self) -> None:
        self.notes: set[bytes] = set()
        self._digest = ""

    def apply(self, origin: ProcessId, body: bytes, age: float) -> object:  # noqa: ARG002
        """Add one note, or many. Returns how many there are."""
        count, _, text = body.removeprefix(MANY).partition(b" ")
        if body.startswith(MANY) and count.isdigit() and int(count) <= MANY_MAX:
            self.notes.update(b"%s %d" % (text, number) for number in range(int(count)))
        else:
            self.notes.add(body)
        self._digest = ""
        return len(self.notes)

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(sorted(self.notes))

    def restore(self, state: bytes, age: float) -> None:  # noqa: ARG002
        self.merge([state])

    def merge(self, states: Sequence[bytes]) -> None:
        self.notes = set()
        self._digest = ""
        for state in states:
            try:
                self.notes.update(_decode(state))
            except msgspec.MsgspecError:
                continue  # of no correct member; ignored by all alike

    def digest(self) -> str:
        if not self._digest:
            self._digest = blake2b(self.snapshot(), digest_size=8).hexdigest()
        return self._digest
