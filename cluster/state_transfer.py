"""State transfer: splits a snapshot and log entries into pieces and reassembles them.

The representative of a new primary view sends the pieces to a member that lacks some of the confirmed past.
Departs: the papers exchange whole histories. See `total_order`.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from cluster.durable import Snapshotted
from cluster.messages import Supply

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cluster.names import ViewId
    from cluster.run_log import Run

_encode = msgspec.msgpack.Encoder().encode
_decode_snapshot = msgspec.msgpack.Decoder(Snapshotted).decode

RUN_OVERHEAD = 64  # approximate bytes of a run besides its entries


def split_state(
    view_id: ViewId,
    snapshot: Snapshotted | None,
    position: int,
    runs: Iterable[Run],
    piece_bytes: int,
) -> list[Supply]:
    """The pieces, in sending order, that bring a member from `position` to the end of these runs."""
    encoded = _encode(snapshot) if snapshot is not None else b""
    chunks = [encoded[start : start + piece_bytes] for start in range(0, len(encoded), piece_bytes)]
    parts = list(_parts(runs, piece_bytes)) or [()]
    count = len(chunks) + len(parts)
    at = snapshot.position if snapshot is not None else -1
    digest = digest_of(encoded) if snapshot is not None else ""
    pieces = [Supply(view_id, i, count, at, chunk, position, (), digest) for i, chunk in enumerate(chunks)]
    for part in parts:
        pieces.append(Supply(view_id, len(pieces), count, at, b"", position, part))
        position += sum([run.pack.count for run in part])
    return pieces


def _parts(runs: Iterable[Run], piece_bytes: int) -> Iterator[tuple[Run, ...]]:
    part: list[Run] = []
    size = 0
    for run in runs:
        length = len(run.pack.packed)
        if part and size + length > piece_bytes:
            yield tuple(part)
            part, size = [], 0
        if length > piece_bytes:
            yield from ((piece,) for piece in _cut(run, piece_bytes))
        else:
            part.append(run)
            size += length + RUN_OVERHEAD
    if part:
        yield tuple(part)


def _cut(run: Run, piece_bytes: int) -> Iterator[Run]:
    """Splits a long run into pieces of about this size. An entry is never split."""
    count = run.pack.count
    step = max(1, count * piece_bytes // len(run.pack.packed))
    for low in range(0, count, step):
        yield run.part(low, min(count, low + step))


def digest_of(snapshot: bytes) -> str:
    return blake2b(snapshot, digest_size=16).hexdigest()


class StateTransfer:
    """Reassembles the pieces of one transfer, for one view. They arrive in order, from one sender.

    Pieces of a snapshot stay useful for a later view: snapshots of one position are equal at all members.
    """

    __slots__ = ("_chunks", "_count", "_digest", "_next", "end", "position", "runs", "view_id")

    def __init__(self, view_id: ViewId) -> None:
        self.view_id = view_id
        self.position = self.end = -1  # position of the first run, and the end of the last
        self.runs: list[Run] = []
        self._chunks: list[bytes] = []
        self._digest = ""
        self._next = 0
        self._count = -1

    def add(self, supply: Supply) -> None:
        if supply.piece != self._next:
            return
        if self._next == 0:
            self.position = self.end = supply.position
            self._count, self._digest = supply.pieces, supply.digest
        self._next += 1
        if supply.snapshot:
            self._chunks.append(supply.snapshot)
        self.runs.extend(supply.runs)
        self.end += sum([run.pack.count for run in supply.runs])

    def resume_from(self, earlier: StateTransfer) -> int:
        """After the first piece: reuses the snapshot pieces of an earlier transfer. Returns the next piece needed."""
        if self._next == 1 and self._chunks and earlier._digest == self._digest and earlier._chunks[:1] == self._chunks:
            self._chunks = earlier._chunks[:]
            self._next = len(self._chunks)
        return self._next

    @property
    def snapshot_len(self) -> int:
        """Number of pieces of the snapshot."""
        return len(self._chunks)

    @property
    def is_complete(self) -> bool:
        return self._next == self._count

    def snapshot(self) -> Snapshotted | None:
        return _decode_snapshot(b"".join(self._chunks)) if self._chunks else None

    def fits(self, base: int, length: int, end: int) -> bool:
        """Whether it brings a member whose log is `base` .. `length` up to `end`."""
        if self._chunks and digest_of(b"".join(self._chunks)) != self._digest:
            return False
        try:
            snapshot = self.snapshot()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        begins = base <= self.position <= length if snapshot is None else self.position == snapshot.position
        return begins and self.end == end
