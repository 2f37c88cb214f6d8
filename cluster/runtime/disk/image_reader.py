"""Reads a store's rows into a `durable.Image`, checking each row and that the rows fit together."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from cluster.durable import Image, Snapshotted
from cluster.run_log import RunLog
from cluster.runtime.disk.log_writer import LogExtent
from cluster.runtime.disk.rows import CorruptRow, interim_of, number_sum, run_of
from cluster.runtime.disk.store_errors import damaged, refusal

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.runtime.disk.rows import Meta


def read_image(file: Path, connection: sqlite3.Connection, meta: Meta) -> tuple[Image, LogExtent]:
    """Read and check all rows."""
    image = Image()
    image.boot, image.epoch = meta.boot, meta.epoch
    image.act, image.amb = meta.primaries.act, meta.primaries.amb
    image.high_primary, image.next_confirm = meta.high_primary, meta.next_confirm
    image.log = RunLog(meta.base)
    numbers = {}
    try:
        floor = connection.execute("SELECT min(position) FROM runs").fetchone()[0]
        found = connection.execute("SELECT * FROM runs WHERE position >= ? ORDER BY position", (meta.base,))
        for position, length, body, checksum in found:
            run = run_of("runs", position, body, checksum)
            if position != image.log.end or length != run.pack.count:
                raise CorruptRow(
                    f"the order ends at {image.log.end}, but the next run of {length} starts at {position}"
                )
            image.log.append(run)
        for number, body, checksum in connection.execute("SELECT * FROM labelled ORDER BY number"):
            run = run_of("labelled", number, body, checksum)
            image.labelled[run.first] = run
            numbers[run.first] = number
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'interim'").fetchone() is not None:
            found = connection.execute("SELECT * FROM interim ORDER BY number")
            image.interim = [interim_of(*row) for row in found]
        if meta.snapshot is not None:
            state = _snapshot(connection)
            if len(state) != meta.snapshot.size:
                raise CorruptRow(f"the snapshot has {len(state)} bytes, not {meta.snapshot.size}")
            image.snapshot = Snapshotted(meta.snapshot.position, meta.snapshot.highest, state)
    except (CorruptRow, TypeError) as error:
        raise damaged(file, str(error)) from error
    except sqlite3.Error as error:
        raise refusal(file, error, "reading") from error
    base = image.log.base
    return image, LogExtent(base if floor is None else min(base, floor), base, image.log.end, numbers)


def _snapshot(connection: sqlite3.Connection) -> bytes:
    pieces: list[bytes] = []
    for piece, body, checksum in connection.execute("SELECT * FROM snapshot ORDER BY piece"):
        if piece != len(pieces) or number_sum(piece, body) != checksum:
            raise CorruptRow(f"piece {piece} of the snapshot is out of order or has a wrong checksum")
        pieces.append(body)
    return b"".join(pieces)
