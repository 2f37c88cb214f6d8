"""Brings the write-ahead log into the database while the writer goes on, so that no commit has to wait for that.

SQLite does it within the commit that makes the log too long: thousands of pages are copied and synced, and whoever
waits for that commit waits for all of it. Here a thread with a connection of its own copies and syncs them. What was
committed meanwhile is left for the writer, because SQLite begins a log anew only when all of it is in the database:
that is a few pages, between two transactions. If the thread cannot do its work, nothing is lost: SQLite does it at
`LOG_PAGES_MAX`, as it always did.
Above: store.  Below: the file and its log.
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

LOG_PAGES = 1_000  # in the log, from which on they are brought into the database
LOG_PAGES_MAX = 4_000  # from which on a commit does it itself
PAGE_BYTES = 4096
TOUCHED_PAGES = 4  # by a transaction, besides what it adds: inner pages, the first page, values by name
CLOSE_S = 10.0

_CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"


class Backfill:
    """Its methods are called by whoever writes, one at a time."""

    __slots__ = ("_begin", "_connect", "_copied", "_ends", "_file", "_pages", "_thread", "rounds")

    def __init__(self, file: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        self._file = file
        self._connect = connect
        self._pages = 0  # that were put into the log since it began, about
        self._thread: Thread | None = None
        self._begin = Event()
        self._copied = Event()  # nearly all of the log is in the database, and on disk
        self._ends = False
        self.rounds = 0  # logs that were begun anew

    def committed(self, connection: sqlite3.Connection, size: int) -> None:
        """A transaction of about `size` bytes is in the log."""
        self._pages += size // PAGE_BYTES + TOUCHED_PAGES
        if self._copied.is_set():
            self._copied.clear()
            with suppress(sqlite3.Error):  # the log goes on, as where the disk is full
                connection.execute(_CHECKPOINT).fetchone()
            self._pages = 0
            self.rounds += 1
        elif self._pages >= LOG_PAGES and not self._begin.is_set():
            if self._thread is None:
                self._thread = Thread(target=self._work, name="cluster-backfill", daemon=True)
                self._thread.start()
            self._begin.set()

    def close(self) -> None:
        """Before the writer closes its connection. May be repeated."""
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
        # Closing any descriptor of a file takes away all locks that the process has on it, so this one stays open as
        # long as the connection.
        descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while not self._ends:  # looked at behind `clear`, too, which takes back the word that it is over
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
            os.fdatasync(descriptor)  # SQLite syncs only what is the whole log
        self._copied.set()
        self._begin.clear()
