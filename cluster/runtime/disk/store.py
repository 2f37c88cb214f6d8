"""Durable store of a node: SQLite with a write-ahead log, one file, one writer, one transaction per `write`.

A store implements `durable.Image` on a real disk: after every transaction the disk holds exactly what an image holds
after the same records. `write` returns when its records are on stable storage (synchronous = FULL). A crash at any
moment leaves all transactions that returned, perhaps the one in progress, and never a part of it.

Layout: see `rows.py`. Runs of the order are written most: one row each, at the end of one table, encoded once. A new
view may truncate the order, which deletes rows. Rows below the base are deleted a few at a time. A snapshot replaces
the previous one, in pieces. Everything else is a few named values.

The store decides the identity of a process when it creates the disk: its incarnation is a random number that the disk
keeps. A node that lost its disk draws a new one and is a new process to the others. That holds for a founder too:
founded again by mistake, it is not mistaken for the process whose acknowledgements the others rely on.

After a failed write, the same records must be written before any others, or the process must end: SQLite cannot tell
whether a transaction whose last sync failed will be there after a crash.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from cluster.runtime.disk import database_file
from cluster.runtime.disk.backfill import Backfill
from cluster.runtime.disk.image_reader import read_image
from cluster.runtime.disk.log_writer import LogExtent, Transaction
from cluster.runtime.disk.rows import CorruptRow, DiskIdentity, Meta, Recovery, all_recoveries
from cluster.runtime.disk.store_errors import (
    START_ANEW,
    DiskExists,
    ForeignDisk,
    StoreError,
    damaged,
    refusal,
    unwritable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cluster.durable import Image, Record
    from cluster.names import ProcessId


class Purpose(Enum):
    """Why a directory without a disk is opened."""

    FOUNDING = "founding"
    JOINING = "joining"


def draw_incarnation() -> int:
    """A random 32-bit incarnation. Never 0, which stands for processes without a disk."""
    return int.from_bytes(os.urandom(4), "big") or 1


class Store:
    """An open disk."""

    __slots__ = ("_backfill", "_connection", "_extent", "_lock", "_meta", "_writer", "directory")

    def __init__(self, directory: Path, lock: database_file.Lock, connection: sqlite3.Connection, meta: Meta) -> None:
        self.directory = directory
        self._lock: database_file.Lock | None = lock
        self._connection = connection
        self._meta = meta
        self._extent = LogExtent(0, 0, 0, {})
        self._backfill = Backfill(self.file, lambda: database_file.connect_again(directory))
        self._writer = threading.Lock()  # serialises transactions of different threads

    # ---- opening and closing

    @classmethod
    def open(cls, directory: Path, *, create_for: Purpose, name: str, cluster_id: str) -> Store:
        """Open the disk of node `name` in group `cluster_id`; create it if there is none. Raises a `StoreError`.

        Founding needs a directory without a disk. Joining uses an existing disk: the process resumes its life.
        """
        try:
            database_file.make_directory(directory)
        except OSError as error:
            raise unwritable(directory, str(error)) from error
        lock = database_file.Lock(directory)
        try:
            if not (directory / database_file.FILE).exists():
                founds = create_for is Purpose.FOUNDING
                founding = os.urandom(16).hex() if founds else ""
                database_file.create(directory, DiskIdentity(cluster_id, name, draw_incarnation(), founds), founding)
            elif create_for is Purpose.FOUNDING:
                raise DiskExists(
                    f"{directory} already has the data of a process. A group is founded once: start the node without "
                    "founding, and it continues where it was. To found another group, use an empty directory."
                )
            return cls._begin(directory, lock, lambda meta: _belongs(directory, meta.identity, name, cluster_id))
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open_any(cls, directory: Path) -> Store:
        """Open a disk of any owner: for an operator, while no node uses it."""
        database_file.connect_read_only(directory).close()
        lock = database_file.Lock(directory)
        try:
            return cls._begin(directory, lock, lambda _meta: None)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _begin(cls, directory: Path, lock: database_file.Lock, accept: Callable[[Meta], None]) -> Store:
        connection, meta = database_file.connect(directory)
        store = cls(directory, lock, connection, meta)
        try:
            accept(meta)
            store.load()
            store._use(True)
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # so that the file itself records that it has a log
            database_file.fill_log(directory)
        except sqlite3.Error as error:
            connection.close()
            raise refusal(store.file, error, "opening") from error
        except BaseException:
            connection.close()
            raise
        return store

    def close(self) -> None:
        """Checkpoint the log and release the directory. Everything is durable already. Idempotent."""
        if self._lock is None:
            return
        try:
            self._use(False)
        except StoreError:
            pass  # the log stays and is read at the next open
        finally:
            self._backfill.close()
            self._connection.close()
            self._lock.release()
            self._lock = None

    # ---- identity

    @property
    def file(self) -> Path:
        return self.directory / database_file.FILE

    @property
    def me(self) -> ProcessId:
        return self._meta.identity.process

    @property
    def cluster_id(self) -> str:
        return self._meta.identity.cluster_id

    @property
    def founder(self) -> bool:
        return self._meta.identity.founder

    @property
    def founding(self) -> str:
        """Id of the founding of this process's cluster: drawn by the founder, passed to all processes that join."""
        return self._meta.founding

    def belong_to(self, founding: str) -> None:
        """Store the founding that this process belongs to. It never changes."""
        if self._meta.founding not in ("", founding):
            raise ForeignDisk(
                f"{self.directory} belongs to the founding {self._meta.founding} of the cluster '{self.cluster_id}', "
                f"not to {founding}. {START_ANEW}"
            )
        self._transact(lambda changes: changes.set("founding", founding))
        self._meta = msgspec.structs.replace(self._meta, founding=founding)

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """Recoveries without a majority, oldest first. Every status shows them."""
        return self._meta.recoveries

    def learn_recoveries(self, theirs: tuple[Recovery, ...]) -> None:
        """Add recoveries that other members know."""
        marks = all_recoveries(self._meta.recoveries, theirs)
        self._transact(lambda changes: changes.set("recoveries", marks))
        self._meta = msgspec.structs.replace(self._meta, recoveries=marks)

    # ---- reading

    def load(self) -> Image:
        """Read the image that the disk holds."""
        self._meta = database_file.read_meta(self.file, self._connection)
        image, self._extent = read_image(self.file, self._connection, self._meta)
        return image

    # ---- writing

    def write(self, records: Sequence[Record]) -> None:
        """Write the records in one transaction. Durable on return; if `StoreError` is raised, none is written."""

        def change(changes: Transaction) -> None:
            for record in records:
                changes.apply(record)

        self._transact(change)

    def _use(self, in_use: bool) -> None:
        self._transact(lambda changes: changes.set("in_use", in_use))

    def recover(self, recovery: Recovery, records: Sequence[Record]) -> None:
        """Set a new cluster id and the recovery record, together with these records, in one transaction."""
        identity = self._meta.identity
        new = DiskIdentity(recovery.new_cluster_id, identity.name, identity.incarnation, identity.founder)

        def change(changes: Transaction) -> None:
            for record in records:
                changes.apply(record)
            changes.set("identity", new)
            changes.set("founding", recovery.founding)
            changes.set("recoveries", (*self._meta.recoveries, recovery))

        self._transact(change)
        self.load()

    def _transact(self, change: Callable[[Transaction], None]) -> None:
        if self._lock is None:
            raise ValueError(f"the store in {self.directory} is closed: open it again before writing")
        with self._writer:
            execute = self._connection.execute
            try:
                execute("BEGIN IMMEDIATE")
                changes = Transaction(self._connection, self._extent.copy())
                change(changes)
                changes.finish()
                execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise refusal(self.file, error, "writing") from error
            except CorruptRow as error:
                self._roll_back()
                raise damaged(self.file, str(error)) from error
            except BaseException:
                self._roll_back()
                raise
            self._extent = changes.extent
            self._backfill.committed(self._connection, changes.written_bytes)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _belongs(directory: Path, identity: DiskIdentity, name: str, cluster_id: str) -> None:
    if identity.cluster_id != cluster_id:
        raise ForeignDisk(
            f"{directory} belongs to the cluster '{identity.cluster_id}' ({identity.process}), but this node is "
            f"configured for '{cluster_id}'. Is it the right directory? If a recovery renamed '{cluster_id}' to "
            f"'{identity.cluster_id}', configure this node with the new id. If it was the other way round, this "
            f"process was given up by the recovery. {START_ANEW}"
        )
    if identity.name != name:
        raise ForeignDisk(
            f"{directory} belongs to the node '{identity.name}' ({identity.process}), but this node is '{name}'. "
            "Start it under that name, or give this node its own directory."
        )
