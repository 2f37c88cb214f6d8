"""Why a disk is refused, or a write failed. Each message says what it is, where, and what to do."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# What to do with a disk that cannot be trusted. An older copy would be worse than none: it would have forgotten what
# this process promised to the others, and they count on it.
START_ANEW = (
    "Move the directory away and start the node again: it joins as a new process and gets everything from the others. "
    "Do not put an older copy in its place: it would have forgotten what this process acknowledged."
)


class StoreError(Exception):
    """Base: the disk cannot be used, or did not take what was written."""


class NoDisk(StoreError):
    """There is no store in this directory."""


class DiskExists(StoreError):
    """A group is to be founded on a disk that belongs to a process already."""


class DiskInUse(StoreError):
    """Another process runs on this directory."""


class ForeignDisk(StoreError):
    """The disk of another process, of another group, or of another program."""


class NewerDisk(StoreError):
    """Written by a later version of this program."""


class DamagedDisk(StoreError):
    """What was written is not what is there."""


class DiskUnwritable(StoreError):
    """The disk cannot be written: read-only, or not permitted."""


class DiskFull(StoreError):
    """No space. Nothing of the transaction was written; it can be tried again when there is space."""


class DiskFailed(StoreError):
    """The disk did not take a transaction, for a reason other than space."""


_FULL = {sqlite3.SQLITE_FULL}
_UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH}
_FAILED = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM}


def refusal(file: Path, error: sqlite3.Error, doing: str) -> StoreError:
    """What an error of SQLite means here. What is none of the known failures of a disk is damage."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in _FULL:
        return full(file, str(error))
    if code in _UNWRITABLE:
        return unwritable(file, str(error))
    if code in _FAILED:
        return DiskFailed(
            f"{file}: {doing} failed: {error}. Nothing of it was written. Look at the disk and at the kernel's log; "
            "stop the node before the disk is repaired."
        )
    return damaged(file, f"{doing} failed: {error}")


def damaged(file: Path, what: str) -> DamagedDisk:
    return DamagedDisk(f"{file} is damaged: {what}. {START_ANEW}")


def full(file: Path, what: str) -> DiskFull:
    return DiskFull(
        f"{file}: no space left ({what}). Nothing of the transaction was written. Make room, then try again."
    )


def unwritable(place: Path, what: str) -> DiskUnwritable:
    return DiskUnwritable(
        f"{place} cannot be written: {what}. The node needs a directory that it owns, on a disk mounted for writing."
    )
