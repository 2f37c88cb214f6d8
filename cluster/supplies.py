"""The confirmed past in pieces: cut by the representative, put together by the one who lacks it.

Departs: the papers exchange whole histories. See `total_order`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from cluster.durable import Snapshotted
from cluster.messages import Supply

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.entries import Entry
    from cluster.names import Label, ViewId

_encode = msgspec.msgpack.Encoder().encode
_decode_snapshot = msgspec.msgpack.Decoder(Snapshotted).decode

ENTRY_OVERHEAD = 64  # bytes that an entry costs beside its body, roughly


def supplies(
    view_id: ViewId,
    snapshot: Snapshotted | None,
    position: int,
    entries: Sequence[tuple[Label, Entry]],
    piece_bytes: int,
) -> list[Supply]:
    """The pieces that bring a member to `position + len(entries)`, in the order in which they have to be sent."""
    encoded = _encode(snapshot) if snapshot is not None else b""
    chunks = [encoded[start : start + piece_bytes] for start in range(0, len(encoded), piece_bytes)]
    runs = list(_runs(entries, piece_bytes)) or [()]
    count = len(chunks) + len(runs)
    at = snapshot.position if snapshot is not None else -1
    digest = digest_of(encoded) if snapshot is not None else ""
    pieces = [Supply(view_id, i, count, at, chunk, position, (), digest) for i, chunk in enumerate(chunks)]
    for run in runs:
        pieces.append(Supply(view_id, len(pieces), count, at, b"", position, run))
        position += len(run)
    return pieces


def _runs(entries: Sequence[tuple[Label, Entry]], piece_bytes: int) -> Iterator[tuple[tuple[Label, Entry], ...]]:
    run: list[tuple[Label, Entry]] = []
    size = 0
    for label, entry in entries:
        if run and size + len(entry.body) > piece_bytes:
            yield tuple(run)
            run, size = [], 0
        run.append((label, entry))
        size += len(entry.body) + ENTRY_OVERHEAD
    if run:
        yield tuple(run)


def digest_of(snapshot: bytes) -> str:
    return blake2b(snapshot, digest_size=16).hexdigest()


class Supplies:
    """The pieces that came in so far, for one view. They come in order, from one sender.

    What came of a snapshot is of use for a later view too: snapshots of one position are equal, whoever has them.
    """

    __slots__ = ("_chunks", "_count", "_digest", "_next", "entries", "position", "view_id")

    def __init__(self, view_id: ViewId) -> None:
        self.view_id = view_id
        self.position = -1  # of entries[0]
        self.entries: list[tuple[Label, Entry]] = []
        self._chunks: list[bytes] = []
        self._digest = ""
        self._next = 0
        self._count = -1

    def add(self, supply: Supply) -> None:
        if supply.piece != self._next:
            return
        if self._next == 0:
            self.position, self._count, self._digest = supply.position, supply.pieces, supply.digest
        self._next += 1
        if supply.snapshot:
            self._chunks.append(supply.snapshot)
        self.entries.extend(supply.entries)

    def go_on_from(self, earlier: Supplies) -> int:
        """After the first piece: take what an earlier series had of the same snapshot. The next piece needed."""
        if self._next == 1 and self._chunks and earlier._digest == self._digest and earlier._chunks[:1] == self._chunks:
            self._chunks = earlier._chunks[:]
            self._next = len(self._chunks)
        return self._next

    @property
    def snapshot_len(self) -> int:
        """How many pieces of a snapshot there are."""
        return len(self._chunks)

    @property
    def is_complete(self) -> bool:
        return self._next == self._count

    def snapshot(self) -> Snapshotted | None:
        return _decode_snapshot(b"".join(self._chunks)) if self._chunks else None

    def fits(self, base: int, length: int, end: int) -> bool:
        """Whether it brings one who has the order from `base` to `length` up to `end`."""
        if self._chunks and digest_of(b"".join(self._chunks)) != self._digest:
            return False
        try:
            snapshot = self.snapshot()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        begins = base <= self.position <= length if snapshot is None else self.position == snapshot.position
        return begins and self.position + len(self.entries) == end
