"""Errors of a store. Each message says what is wrong, where, and what to do."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# What to do with a disk that cannot be trusted. An older copy is worse than none: it lacks acknowledgements that
# this process gave to the others, and they rely on them.
START_ANEW = (
    "Move the directory away and start the node again: it joins as a new process and gets its state from the others. "
    "Do not restore an older copy: it lacks entries that this process acknowledged."
)


class StoreError(Exception):
    """Base class: the disk cannot be used, or a write failed."""


class NoDisk(StoreError):
    """There is no store in this directory."""


class DiskExists(StoreError):
    """A group is to be founded in a directory that already belongs to a process."""


class DiskInUse(StoreError):
    """Another process, `holder`, uses this directory."""

    def __init__(self, directory: Path, holder: str) -> None:
        super().__init__(
            f"{directory} is in use by process {holder}. Each node needs its own directory: stop that process, or "
            "give this node another directory."
        )
        self.directory = directory
        self.holder = holder


class ForeignDisk(StoreError):
    """The disk belongs to another process, group or program."""


class NewerDisk(StoreError):
    """A later version of this program wrote the disk."""


class DamagedDisk(StoreError):
    """The content differs from what was written."""


class DiskUnwritable(StoreError):
    """The disk is read-only, or permission is missing."""


class DiskFull(StoreError):
    """No space. Nothing of the transaction was written; retry when there is space."""


class DiskFailed(StoreError):
    """A transaction failed for a reason other than space."""


_FULL = {sqlite3.SQLITE_FULL}
_UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH}
_FAILED = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM}


def refusal(file: Path, error: sqlite3.Error, doing: str) -> StoreError:
    """Map a SQLite error to a `StoreError`. Unknown errors count as damage."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in _FULL:
        return full(file, str(error))
    if code in _UNWRITABLE:
        return unwritable(file, str(error))
    if code in _FAILED:
        return DiskFailed(
            f"{file}: {doing} failed: {error}. Nothing was written. Check the disk and the kernel log; "
            "stop the node before you repair the disk."
        )
    return damaged(file, f"{doing} failed: {error}")


def damaged(file: Path, what: str) -> DamagedDisk:
    return DamagedDisk(f"{file} is damaged: {what}. {START_ANEW}")


def full(file: Path, what: str) -> DiskFull:
    return DiskFull(
        f"{file}: no space left ({what}). Nothing of the transaction was written. Free some space, then try again."
    )


def unwritable(place: Path, what: str) -> DiskUnwritable:
    return DiskUnwritable(
        f"{place} cannot be written: {what}. The node needs a directory that it owns, on a writable file system."
    )
