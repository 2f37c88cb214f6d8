"""The file of a store: made whole or not at all, and opened only if it is what it should be.

Beside `group.db` lie its write-ahead log (`group.db-wal`), SQLite's shared memory (`group.db-shm`) and `lock`, which a
running process holds locked. The log belongs to the database: a copy of one without the other is no copy.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from cluster.names import founding_view
from cluster.runtime.disk import rows
from cluster.runtime.disk.backfill import LOG_PAGES_MAX
from cluster.runtime.disk.rows import CorruptRow, DiskIdentity, Meta, meta_of, meta_row
from cluster.runtime.disk.store_errors import DiskInUse, ForeignDisk, NewerDisk, NoDisk, damaged, refusal, unwritable
from cluster.runtime.disk.wal_check import has_sound_header, lost_commits

if TYPE_CHECKING:
    from pathlib import Path

FILE = "group.db"
LOCK = "lock"
ASIDE = "given-up"  # where the disk of a process goes whose state was wrong
SCHEMA_VERSION = 1
APPLICATION_ID = 0x51475250  # "QGRP"
LOG_BYTES = 5 * 1024 * 1024  # room for the pages of a log, and for the transactions that go beyond
BUSY_S = 5.0  # how long a writer waits for somebody with another tool


class Lock:
    """At most one process works on a directory. The kernel lets go of the lock when the process ends."""

    __slots__ = ("_descriptor",)

    def __init__(self, directory: Path) -> None:
        file = directory / LOCK
        try:
            self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unwritable(directory, str(error)) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise DiskInUse(
                f"{directory} is in use by process {holder or '(unknown)'}. One node, one directory: stop that "
                "process, or give this node a directory of its own."
            ) from error
        with suppress(OSError):  # a full disk: the lock holds all the same
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def is_locked(directory: Path) -> bool:
    """Whether a process runs on this directory now."""
    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def create(directory: Path, identity: DiskIdentity, founding: str) -> None:
    """A new disk for a process that was never there before. Appears at once and whole, or not.

    `founding`: the name of the founding, if this is one.
    """
    new, file = directory / (FILE + ".new"), directory / FILE
    log = directory / (FILE + "-wal")
    if has_content(log):
        raise damaged(log, f"{FILE} is missing, though its log is there")
    meta: dict[str, object] = {"identity": identity}
    if identity.founder:  # as `cluster.durable.founding_image`: alone in v_0, which it registered
        view = founding_view(identity.process)
        meta |= {"founding": founding, "primaries": rows.PrimariesRow(view, ()), "high_primary": view.id}
    try:
        for left in directory.glob(new.name + "*"):  # by one that was killed; its journal would spoil ours
            left.unlink()
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = sqlite3.connect(new, isolation_level=None)
        try:
            connection.executescript(
                f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};"
                f"PRAGMA synchronous = FULL; BEGIN; {rows.SCHEMA}"
            )
            connection.executemany("INSERT INTO meta VALUES (?, ?, ?)", [meta_row(*item) for item in meta.items()])
            connection.execute("COMMIT")
            # here and not later: the change is made with a journal, and a process killed within would leave that behind
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        new.rename(file)
        sync_directory(directory)
    except sqlite3.Error as error:
        raise refusal(new, error, "making a new disk") from error
    except OSError as error:
        raise unwritable(directory, str(error)) from error


def make_directory(directory: Path) -> None:
    """Where it does not exist; then it still does after a loss of power."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in missing:
        sync_directory(path.parent)


def set_aside(directory: Path) -> Path:
    """Move the disk of a process that will not go on into a folder of its own, in place of an earlier one."""
    folder = directory / ASIDE
    lock = Lock(directory)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for left in folder.iterdir():
            left.unlink()
        for part in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                (directory / (FILE + part)).rename(folder / (FILE + part))
        sync_directory(folder)
        sync_directory(directory)
    except OSError as error:
        raise unwritable(directory, str(error)) from error
    finally:
        lock.release()
    return folder


def has_content(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def connect(directory: Path) -> tuple[sqlite3.Connection, Meta]:
    """Open for writing what `create` made. The caller has the lock.

    All checks are made on a connection that cannot write: closing one that can would bring the log into the database
    and remove it, and a disk that is refused stays as it was found.
    """
    meta = check(directory)
    return connect_again(directory), meta


def connect_again(directory: Path) -> sqlite3.Connection:
    """For one that works on this disk already."""
    file = directory / FILE
    connection = _open(file, "rw")
    try:
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise unwritable(file, "SQLite cannot use a write-ahead log there")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES_MAX}")
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection
    except sqlite3.Error as error:
        connection.close()
        raise refusal(file, error, "opening") from error
    except BaseException:
        connection.close()
        raise


def fill_log(directory: Path) -> None:
    """Give the log its full size at once, in zeros, which SQLite does not take for frames.

    A sync of a file that has grown also has to write where its new blocks are. Of one that is written over, only the
    data: twice as fast on a disk that has nothing else to do. Where there is no space, it has to do without.
    """
    descriptor = os.open(directory / (FILE + "-wal"), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        try:
            os.write(descriptor, bytes(max(0, LOG_BYTES - size)))
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
        else:
            if os.fstat(descriptor).st_size < LOG_BYTES:  # the rest did not fit
                os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def check(directory: Path) -> Meta:
    """Whether this disk is whole. For one that nobody works on: a log that is being written looks torn."""
    file = directory / FILE
    log = file.with_name(file.name + "-wal")
    had_log = has_content(log)  # SQLite may leave an empty one where somebody only looked
    connection = connect_read_only(directory)
    try:
        if had_log:
            _whole_log(file, log)
        whole_pages(file, connection)
        meta = read_meta(file, connection)
    except sqlite3.Error as error:
        raise refusal(file, error, "reading") from error
    finally:
        connection.close()
    if meta.in_use and not had_log:
        raise damaged(file, f"a process was running on it, but its log {log.name} is missing")
    return meta


def connect_read_only(directory: Path) -> sqlite3.Connection:
    """Open to look at, also while a process works on it. Changes nothing but SQLite's shared memory."""
    file = directory / FILE
    connection = _open(file, "ro")
    try:
        _known_schema(file, connection)
        return connection
    except sqlite3.Error as error:
        connection.close()
        raise refusal(file, error, "opening") from error
    except BaseException:
        connection.close()
        raise


def _open(file: Path, mode: str) -> sqlite3.Connection:
    if not file.exists():
        raise NoDisk(f"there is no {FILE} in {file.parent}. Is this the directory of a node?")
    if mode == "rw" and not os.access(file, os.W_OK):
        raise unwritable(file, "not permitted, or mounted read-only")
    address = f"{file.absolute().as_uri()}?mode={mode}"
    try:
        return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise refusal(file, error, "opening") from error


def _known_schema(file: Path, connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise ForeignDisk(
            f"{file} is a SQLite database, but not of a group (application id {application:#x}, not "
            f"{APPLICATION_ID:#x}). Give the node a directory of its own."
        )
    if version > SCHEMA_VERSION:
        raise NewerDisk(
            f"{file} was written by a later version of this program (schema {version}; this one knows up to "
            f"{SCHEMA_VERSION}). Start the later version; there is no way back with the same disk."
        )
    if version != SCHEMA_VERSION:
        raise damaged(file, f"there never was a schema {version}")


def _whole_log(file: Path, log: Path) -> None:
    """A connection is open and has read the log: how much of it SQLite took is in the shared memory."""
    if not has_sound_header(log):
        raise damaged(log, "its first 32 bytes are wrong, so nothing of it can be read")
    frames = frames_taken(file)
    if lost := lost_commits(log, frames):
        raise damaged(log, f"at least {lost} transactions behind its first {frames} pages cannot be read any more")


def frames_taken(file: Path) -> int:
    """How many frames of the log are part of the database: mxFrame of the WAL index."""
    shared = file.with_name(file.name + "-shm")
    head = shared.read_bytes()[:20] if shared.exists() else b""
    return int.from_bytes(head[16:20], sys.byteorder)


def whole_pages(file: Path, connection: sqlite3.Connection) -> None:
    found = [row[0] for row in connection.execute("PRAGMA quick_check(3)")]
    if found != ["ok"]:
        raise damaged(file, "; ".join(str(line) for line in found))


def read_meta(file: Path, connection: sqlite3.Connection) -> Meta:
    try:
        return meta_of(iter(connection.execute("SELECT key, body, sum FROM meta")))
    except (CorruptRow, msgspec.DecodeError, TypeError) as error:
        raise damaged(file, str(error)) from error
