"""The disk of a node: SQLite with a write-ahead log, one file, one writer, one transaction per call of `write`.

A store does for a real disk what `durable.Image` describes: after every transaction the disk holds exactly what an
image does after the same records. A call of `write` returns when its records are on the platter (synchronous = FULL);
a crash at any moment leaves all transactions that returned, perhaps the one under way, and nothing of it in part.

Layout: `rows.py` has the tables. What is written most, runs of the order, is one row each, at the end of one table,
encoded once. What is cut off by a new view is rows deleted; what is dropped below the base, too, a few at a time.
Snapshots are replaced, in pieces. All else is a few values by name.

Who a process is, is decided here, when its disk is made: its incarnation is a random number that the disk keeps. A node
that lost its disk draws another one, and is somebody else to the others. That holds for a founder too: founded again by
mistake, it is not taken for the process that made those promises.

After a write that failed, the same records have to be written before any others, or the process has to end: SQLite
cannot say whether a transaction whose last sync failed will be there after a crash.
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
from cluster.runtime.disk.transaction import LogExtent, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cluster.durable import Image, Record
    from cluster.names import ProcessId


class Purpose(Enum):
    """What a directory without a disk is for."""

    FOUNDING = "founding"
    JOINING = "joining"


def draw_incarnation() -> int:
    """32 bits that no other life of this name had. Never 0, which is for processes without a disk."""
    return int.from_bytes(os.urandom(4), "big") or 1


class Store:
    __slots__ = ("_backfill", "_connection", "_extent", "_lock", "_meta", "_writer", "directory")

    def __init__(self, directory: Path, lock: database_file.Lock, connection: sqlite3.Connection, meta: Meta) -> None:
        self.directory = directory
        self._lock: database_file.Lock | None = lock
        self._connection = connection
        self._meta = meta
        self._extent = LogExtent(0, 0, 0, {})
        self._backfill = Backfill(self.file, lambda: database_file.connect_again(directory))
        self._writer = threading.Lock()  # one transaction at a time, whichever threads they come from

    # ---- opening and closing

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        create_for: Purpose,
        name: str,
        cluster_id: str,
        draw: Callable[[], int] = draw_incarnation,
    ) -> Store:
        """The disk of the node `name` of the group `cluster_id`, made if there is none. Raises a `StoreError`.

        To found needs a directory without a disk. To join takes the disk that is there: the process resumes its life.
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
                database_file.create(directory, DiskIdentity(cluster_id, name, draw(), founds), founding)
            elif create_for is Purpose.FOUNDING:
                raise DiskExists(
                    f"{directory} has the disk of a process already. A group is founded once: start the node without "
                    "founding, and it goes on where it was. To found another group, use an empty directory."
                )
            return cls._begin(directory, lock, lambda meta: _belongs(directory, meta.identity, name, cluster_id))
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open_any(cls, directory: Path) -> Store:
        """Whosever disk it is: for an operator, while no node runs on it."""
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
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # so that the file itself says that it has a log
            database_file.fill_log(directory)
        except sqlite3.Error as error:
            connection.close()
            raise refusal(store.file, error, "opening") from error
        except BaseException:
            connection.close()
            raise
        return store

    def close(self) -> None:
        """All is on disk already; this brings the log into the file and lets go of the directory. May be repeated."""
        if self._lock is None:
            return
        try:
            self._use(False)
        except StoreError:
            pass  # then the log stays, and says so
        finally:
            self._backfill.close()
            self._connection.close()
            self._lock.release()
            self._lock = None

    # ---- who

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
        """Which founding of the cluster this process belongs to: drawn by the founder, told to all who join."""
        return self._meta.founding

    def belong_to(self, founding: str) -> None:
        """Remember the founding that this process was told of. It is for life."""
        if self._meta.founding not in ("", founding):
            raise ForeignDisk(
                f"{self.directory} belongs to the founding {self._meta.founding} of the cluster '{self.cluster_id}', "
                f"not to {founding}. {START_ANEW}"
            )
        self._transact(lambda changes: changes.set("founding", founding))
        self._meta = msgspec.structs.replace(self._meta, founding=founding)

    @property
    def recoveries(self) -> tuple[Recovery, ...]:
        """The marks of an operator who went on without a majority, oldest first. Every status shows them."""
        return self._meta.recoveries

    def learn_recoveries(self, theirs: tuple[Recovery, ...]) -> None:
        """Marks that other members have."""
        marks = all_recoveries(self._meta.recoveries, theirs)
        self._transact(lambda changes: changes.set("recoveries", marks))
        self._meta = msgspec.structs.replace(self._meta, recoveries=marks)

    # ---- reading

    def load(self) -> Image:
        """What the disk holds."""
        self._meta = database_file.read_meta(self.file, self._connection)
        image, self._extent = read_image(self.file, self._connection, self._meta)
        return image

    # ---- writing

    def write(self, records: Sequence[Record]) -> None:
        """One transaction. Durable when this returns; nothing of it is there when it raises `StoreError`."""

        def change(changes: Transaction) -> None:
            for record in records:
                changes.apply(record)

        self._transact(change)

    def _use(self, in_use: bool) -> None:
        self._transact(lambda changes: changes.set("in_use", in_use))

    def recover(self, recovery: Recovery, records: Sequence[Record]) -> None:
        """Give the disk another cluster id and a mark, together with these records, in one transaction."""
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
            raise ValueError(f"the disk in {self.directory} was closed: open it again before writing")
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
            f"{directory} is a disk of the cluster '{identity.cluster_id}' (of {identity.process}), but this node is "
            f"to be in '{cluster_id}'. Right directory? If '{identity.cluster_id}' is what a recovery made of "
            f"'{cluster_id}', tell this node the new id. If it is the other way round, this process was given up when "
            f"the group was recovered. {START_ANEW}"
        )
    if identity.name != name:
        raise ForeignDisk(
            f"{directory} is the disk of '{identity.name}' ({identity.process}), but this node is called '{name}'. "
            "Start it under its own name, or give this one a directory of its own."
        )
