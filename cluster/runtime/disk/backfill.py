"""Checkpoints the SQLite write-ahead log in a background thread, so that commits do not wait for it.

By default SQLite checkpoints within the commit that makes the log too long: it copies and syncs thousands of pages, and
that commit waits. Here a thread with its own connection copies and syncs the pages. Pages committed meanwhile are left
to the writer, because SQLite restarts a log only when all of it is in the database. That is a few pages, between two
transactions. If the thread fails, nothing is lost: SQLite checkpoints by itself at `LOG_PAGES_MAX`.
Above: store.  Below: the database file and its log.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

from cluster.runtime.disk.store_errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG_PAGES = 1_000  # log length from which on the thread checkpoints
LOG_PAGES_MAX = 4_000  # log length from which on a commit checkpoints
PAGE_BYTES = 4096
TOUCHED_PAGES = 4  # pages that a transaction touches besides the data: inner pages, first page, meta values
CLOSE_S = 10.0

_CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"


class Backfill:
    """The checkpointing thread. The writer calls the methods, one at a time."""

    __slots__ = ("_begin", "_connect", "_copied", "_ends", "_file", "_pages", "_thread", "rounds")

    def __init__(self, file: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        self._file = file
        self._connect = connect
        self._pages = 0  # pages written to the log since it restarted, about
        self._thread: Thread | None = None
        self._begin = Event()
        self._copied = Event()  # set when nearly all of the log is in the database and synced
        self._ends = False
        self.rounds = 0  # log restarts

    def committed(self, connection: sqlite3.Connection, size: int) -> None:
        """Account for a committed transaction of about `size` bytes; start or finish a checkpoint if due."""
        self._pages += size // PAGE_BYTES + TOUCHED_PAGES
        if self._copied.is_set():
            self._copied.clear()
            with suppress(sqlite3.Error):  # the log grows further, as on a full disk
                connection.execute(_CHECKPOINT).fetchone()
            self._pages = 0
            self.rounds += 1
        elif self._pages >= LOG_PAGES and not self._begin.is_set():
            if self._thread is None:
                self._thread = Thread(target=self._work, name="cluster-backfill", daemon=True)
                self._thread.start()
            self._begin.set()

    def close(self) -> None:
        """Stop the thread. Call before the writer closes its connection. Idempotent."""
        self._ends = True
        self._begin.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)
            self._thread = None

    def _work(self) -> None:
        try:
            connection = self._connect()
        except StoreError:
            return
        # Closing any descriptor of a file drops all locks that the process has on it (POSIX), so this one stays open as
        # long as the connection.
        descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while not self._ends:  # checked after `clear` too, which may have cleared the wake-up of `close`
                self._begin.wait()
                self._round(connection, descriptor)
        finally:
            connection.close()
            os.close(descriptor)

    def _round(self, connection: sqlite3.Connection, descriptor: int) -> None:
        if self._ends:
            return
        with suppress(sqlite3.Error, OSError):
            connection.execute(_CHECKPOINT).fetchone()
            os.fdatasync(descriptor)  # a passive checkpoint syncs only if it covered the whole log
        self._copied.set()
        self._begin.clear()
