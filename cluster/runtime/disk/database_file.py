"""Database file of a store: atomic creation, locking, and integrity checks before it is opened.

Next to `group.db` are its write-ahead log (`group.db-wal`), SQLite's shared memory (`group.db-shm`) and `lock`, which a
running process holds locked. The log is part of the database: a copy of one without the other is incomplete.
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
ASIDE = "given-up"  # directory for the disk of a process whose state had diverged
SCHEMA_VERSION = 1
APPLICATION_ID = 0x51475250  # "QGRP"
LOG_BYTES = 5 * 1024 * 1024  # size of a log, with room for transactions beyond the checkpoint
BUSY_S = 5.0  # how long a writer waits for another tool that holds the database


class Lock:
    """Ensures that at most one process uses a data directory. The kernel releases the lock when the process ends."""

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
            raise DiskInUse(directory, holder or "(unknown)") from error
        with suppress(OSError):  # a full disk: the lock itself still works
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def is_locked(directory: Path) -> bool:
    """Whether a running process holds this directory."""
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
    """Create the disk of a new process, atomically.

    `founding`: the id of the founding, if the process founds the cluster.
    """
    new, file = directory / (FILE + ".new"), directory / FILE
    log = directory / (FILE + "-wal")
    if has_content(log):
        raise damaged(log, f"{FILE} is missing, but its log exists")
    meta: dict[str, object] = {"identity": identity}
    if identity.founder:  # as `cluster.durable.founding_image`: alone in v_0, which is registered
        view = founding_view(identity.process)
        meta |= {"founding": founding, "primaries": rows.PrimariesRow(view, ()), "high_primary": view.id}
    try:
        for left in directory.glob(new.name + "*"):  # left by a killed process; its journal would corrupt the new file
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
            # now and not later: the change uses a journal, which a process killed meanwhile would leave behind
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        new.rename(file)
        sync_directory(directory)
    except sqlite3.Error as error:
        raise refusal(new, error, "creating the database") from error
    except OSError as error:
        raise unwritable(directory, str(error)) from error


def make_directory(directory: Path) -> None:
    """Create the directory if it does not exist, durably."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in missing:
        sync_directory(path.parent)


def set_aside(directory: Path) -> Path:
    """Move the disk of a process that will not continue into `ASIDE`, replacing an earlier one."""
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
    """Open a database that `create` made for writing. The caller holds the lock.

    All checks use a read-only connection. Closing a writable one would checkpoint the log and remove it, and a refused
    disk must stay as it was found.
    """
    meta = check(directory)
    return connect_again(directory), meta


def connect_again(directory: Path) -> sqlite3.Connection:
    """Open another connection to a disk that this process has open already."""
    file = directory / FILE
    connection = _open(file, "rw")
    try:
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise unwritable(file, "SQLite cannot use a write-ahead log on this file system")
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
    """Preallocate the log with zeros, which SQLite does not take for frames.

    Syncing a file that grew also writes its block map; syncing one that is overwritten writes only data. That is twice
    as fast on an idle disk. Without enough space the log starts empty.
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
            if os.fstat(descriptor).st_size < LOG_BYTES:  # no space for the rest
                os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def check(directory: Path) -> Meta:
    """Check the integrity of a disk. Only for a disk that is not in use: a log being written looks torn."""
    file = directory / FILE
    log = file.with_name(file.name + "-wal")
    had_log = has_content(log)  # SQLite may leave an empty log after a read-only open
    connection = connect_read_only(directory)
    try:
        if had_log:
            _check_log(file, log)
        check_pages(file, connection)
        meta = read_meta(file, connection)
    except sqlite3.Error as error:
        raise refusal(file, error, "reading") from error
    finally:
        connection.close()
    if meta.in_use and not had_log:
        raise damaged(file, f"the last process did not close it, and its log {log.name} is missing")
    return meta


def read_identity(directory: Path) -> DiskIdentity:
    """The owner of a disk, also while a process uses it. Raises a StoreError."""
    connection = connect_read_only(directory)
    try:
        return read_meta(directory / FILE, connection).identity
    except sqlite3.Error as error:
        raise refusal(directory / FILE, error, "reading") from error
    finally:
        connection.close()


def connect_read_only(directory: Path) -> sqlite3.Connection:
    """Open for reading, also while a process uses the disk. Changes nothing but SQLite's shared memory."""
    file = directory / FILE
    connection = _open(file, "ro")
    try:
        _check_schema(file, connection)
        return connection
    except sqlite3.Error as error:
        connection.close()
        raise refusal(file, error, "opening") from error
    except BaseException:
        connection.close()
        raise


def _open(file: Path, mode: str) -> sqlite3.Connection:
    if not file.exists():
        raise NoDisk(f"there is no {FILE} in {file.parent}. Is this the data directory of a node?")
    if mode == "rw" and not os.access(file, os.W_OK):
        raise unwritable(file, "no permission, or mounted read-only")
    address = f"{file.absolute().as_uri()}?mode={mode}"
    try:
        return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise refusal(file, error, "opening") from error


def _check_schema(file: Path, connection: sqlite3.Connection) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application != APPLICATION_ID:
        raise ForeignDisk(
            f"{file} is a SQLite database of another program (application id {application:#x}, not "
            f"{APPLICATION_ID:#x}). Give the node its own directory."
        )
    if version > SCHEMA_VERSION:
        raise NewerDisk(
            f"{file} was written by a later version of this program (schema {version}; this one knows up to "
            f"{SCHEMA_VERSION}). Start the later version; a downgrade cannot keep the disk."
        )
    if version != SCHEMA_VERSION:
        raise damaged(file, f"schema version {version} does not exist")


def _check_log(file: Path, log: Path) -> None:
    """Check the log after a connection has read it: the shared memory says how much of it SQLite accepted."""
    if not has_sound_header(log):
        raise damaged(log, "its header (first 32 bytes) is wrong, so nothing of it can be read")
    frames = frames_taken(file)
    if lost := lost_commits(log, frames):
        raise damaged(log, f"at least {lost} transactions after its first {frames} pages are unreadable")


def frames_taken(file: Path) -> int:
    """Number of log frames that SQLite accepted: mxFrame of the WAL index."""
    shared = file.with_name(file.name + "-shm")
    head = shared.read_bytes()[:20] if shared.exists() else b""
    return int.from_bytes(head[16:20], sys.byteorder)


def check_pages(file: Path, connection: sqlite3.Connection) -> None:
    found = [row[0] for row in connection.execute("PRAGMA quick_check(3)")]
    if found != ["ok"]:
        raise damaged(file, "; ".join(str(line) for line in found))


def read_meta(file: Path, connection: sqlite3.Connection) -> Meta:
    try:
        return meta_of(iter(connection.execute("SELECT key, body, sum FROM meta")))
    except (CorruptRow, msgspec.DecodeError, TypeError) as error:
        raise damaged(file, str(error)) from error
