"""Writes log entries and other records to disk, as rows of one SQLite transaction.

`Store.write` opens the transaction and commits it. `Transaction` does what `Image.apply` does for every record, on rows
instead of objects. An own run that is labelled and ordered within one transaction is written once. A run is encoded
once however many records name it. Runs below the base leave the image at once, but their rows are deleted a few at a
time by later transactions: deleting all at once would delay the entries of that transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.durable import (
    Appended,
    Boot,
    Epoch,
    InterimOperation,
    InterimState,
    Labelled,
    Primaries,
    Rebuilt,
    Record,
    Snapshotted,
    Truncated,
)
from cluster.runtime.disk import rows
from cluster.runtime.disk.rows import INTERIM_SCHEMA, PIECE_BYTES, SnapshotHead, encode, meta_row, number_sum

if TYPE_CHECKING:
    import sqlite3

    from cluster.names import Label
    from cluster.run_log import Run

SWEPT_RUNS = 4  # runs that a transaction deletes below the base, plus twice as many as it adds


class LogExtent:
    """Extent of the existing rows, for the next transaction: the bounds of the order, and the rows of labelled runs."""

    __slots__ = ("base", "end", "floor", "labelled", "number")

    def __init__(self, floor: int, base: int, end: int, labelled: dict[Label, int]) -> None:
        self.floor = floor  # no rows before this position; rows between floor and base are still to be deleted
        self.base = base
        self.end = end
        self.labelled = labelled  # first label -> number of the row
        self.number = max(labelled.values(), default=0)  # the last number used

    def copy(self) -> LogExtent:
        other = LogExtent(self.floor, self.base, self.end, dict(self.labelled))
        other.number = self.number
        return other


class Transaction:
    """A transaction in progress. `extent` is a copy that becomes valid when the transaction commits."""

    __slots__ = ("_connection", "_interim", "_labelled", "_meta", "_runs", "extent", "runs_added", "written_bytes")

    def __init__(self, connection: sqlite3.Connection, extent: LogExtent) -> None:
        self._connection = connection
        self.extent = extent
        self.runs_added = 0
        self.written_bytes = 0  # bytes of entries and snapshots, about
        self._meta: dict[str, object] = {}
        self._runs: list[tuple[int, int, bytes, int]] = []  # rows to append to the order
        self._interim: list[InterimOperation | InterimState] = []  # rows to append
        self._labelled: dict[Label, Run] = {}  # rows to add, unless they are ordered within this transaction

    def apply(self, record: Record) -> None:
        match record:
            case Appended(position=position, run=run):
                if position != self.extent.end:
                    self._cut(position)
                self._forget_labelled(run.first)
                self._append(run)
            case Labelled(run=run):
                self._forget_labelled(run.first)
                self._labelled[run.first] = run
            case Boot(boot=boot):
                self._meta["boot"] = boot
            case Epoch(epoch=epoch):
                self._meta["epoch"] = epoch
            case Primaries(act=act, amb=amb):
                self._meta["primaries"] = rows.PrimariesRow(act, amb)
            case Rebuilt():
                self._rebuild(record)
            case Snapshotted():
                self._keep_snapshot(record)
            case Truncated(base=base):
                self._drop_below(base)
            case InterimState() | InterimOperation():
                self._interim.append(record)
            case _:
                raise TypeError(f"unknown record type: {record!r}")

    def set(self, key: str, value: object) -> None:
        """Set a meta value that no record covers."""
        self._meta[key] = value

    def finish(self) -> None:
        """Write all pending rows."""
        self._flush_runs()
        self._sweep()
        extent = self.extent
        for label, run in self._labelled.items():
            extent.number += 1
            body = encode(run)
            self._connection.execute(
                "INSERT INTO labelled VALUES (?, ?, ?)", (extent.number, body, number_sum(extent.number, body))
            )
            extent.labelled[label] = extent.number
            self.written_bytes += len(body)
        if self._interim:
            self._write_interim()
        if self._meta:
            self._connection.executemany(
                "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)",
                [meta_row(key, value) for key, value in self._meta.items()],
            )

    # ---- the order

    def _append(self, run: Run) -> None:
        count = run.pack.count
        if not count:
            return
        body, end = encode(run), self.extent.end
        self._runs.append((end, count, body, number_sum(end, body)))
        self.extent.end = end + count
        self.runs_added += 1
        self.written_bytes += len(body)

    def _flush_runs(self) -> None:
        if self._runs:
            self._connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", self._runs)
            self._runs.clear()

    def _cut(self, position: int) -> None:
        extent = self.extent
        if not extent.base <= position <= extent.end:
            raise ValueError(
                f"a record continues at position {position}, but the order on disk is {extent.base}..{extent.end}"
            )
        self._flush_runs()
        self._connection.execute("DELETE FROM runs WHERE position >= ?", (position,))
        last = self._connection.execute(
            "SELECT position, length, body, sum FROM runs ORDER BY position DESC LIMIT 1"
        ).fetchone()
        if last is not None and last[0] + last[1] > position:
            start, _, body, checksum = last
            run = rows.run_of("runs", start, body, checksum).part(0, position - start)
            body = encode(run)
            self._connection.execute(
                "UPDATE runs SET length = ?, body = ?, sum = ? WHERE position = ?",
                (run.pack.count, body, number_sum(start, body), start),
            )
        extent.end = position

    def _drop_below(self, position: int) -> None:
        self._flush_runs()
        extent = self.extent
        if position >= extent.end:
            base = extent.end
        else:
            found = self._connection.execute("SELECT max(position) FROM runs WHERE position <= ?", (position,))
            base = found.fetchone()[0]
        if base is not None and base > extent.base:
            self._meta["base"] = extent.base = base

    def _sweep(self) -> None:
        """Delete some rows below the base."""
        extent = self.extent
        if extent.floor < extent.base:
            left = self._connection.execute(
                "SELECT position FROM runs WHERE position < ? ORDER BY position LIMIT 1 OFFSET ?",
                (extent.base, SWEPT_RUNS + 2 * self.runs_added),
            ).fetchone()
            extent.floor = left[0] if left is not None else extent.base
            self._connection.execute("DELETE FROM runs WHERE position < ?", (extent.floor,))

    def _rebuild(self, record: Rebuilt) -> None:
        if record.snapshot is not None:
            self._keep_snapshot(record.snapshot)
            self._runs.clear()
            self._connection.execute("DELETE FROM runs")
            self._meta["base"] = self.extent.base = self.extent.end = self.extent.floor = record.position
        if record.position != self.extent.end:
            self._cut(record.position)
        for run in record.runs:
            self._append(run)
        self._meta["high_primary"] = record.high_primary
        self._meta["next_confirm"] = record.next_confirm
        self._labelled.clear()
        if self.extent.labelled:
            self._connection.execute("DELETE FROM labelled")
            self.extent.labelled.clear()

    # ---- the interim service

    def _write_interim(self) -> None:
        """Append the records. A state replaces everything before it."""
        states = [i for i, record in enumerate(self._interim) if isinstance(record, InterimState)]
        execute = self._connection.execute
        execute(INTERIM_SCHEMA)
        number = execute("SELECT coalesce(max(number), 0) FROM interim").fetchone()[0]
        if states:
            execute("DELETE FROM interim")
        for record in self._interim[states[-1] if states else 0 :]:
            number += 1
            body = encode(record)
            execute("INSERT INTO interim VALUES (?, ?, ?)", (number, body, number_sum(number, body)))
            self.written_bytes += len(body)

    # ---- labelled runs and snapshots

    def _forget_labelled(self, label: Label) -> None:
        if self._labelled.pop(label, None) is None:
            number = self.extent.labelled.pop(label, None)
            if number is not None:
                self._connection.execute("DELETE FROM labelled WHERE number = ?", (number,))

    def _keep_snapshot(self, snapshot: Snapshotted) -> None:
        state = memoryview(snapshot.state)
        self.written_bytes += len(state)
        pieces = [state[start : start + PIECE_BYTES] for start in range(0, len(state), PIECE_BYTES)]
        self._connection.execute("DELETE FROM snapshot")
        self._connection.executemany(
            "INSERT INTO snapshot VALUES (?, ?, ?)",
            ((i, piece, number_sum(i, piece)) for i, piece in enumerate(pieces)),  # type: ignore[arg-type]
        )
        self._meta["snapshot"] = SnapshotHead(snapshot.position, snapshot.highest, len(state))
