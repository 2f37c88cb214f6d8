"""Background checkpoints keep the write-ahead log short, and nothing depends on whether they work."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.durable import Appended, Snapshotted, Truncated
from cluster.entries import pack_bodies
from cluster.names import ViewId
from cluster.run_log import Run
from cluster.runtime.disk import database_file
from cluster.runtime.disk.backfill import LOG_PAGES, LOG_PAGES_MAX, PAGE_BYTES, Backfill
from cluster.runtime.disk.store_errors import DiskUnwritable
from tests.cluster.runtime.disk.images import ME, contents
from tests.cluster.runtime.disk.test_store import held, open_store
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from cluster.runtime.disk.store import Store

BODY = bytes(8 * PAGE_BYTES)
COUNT = LOG_PAGES // 8 + 1  # transactions that trigger a checkpoint


def append(store: Store, position: int) -> None:
    run = Run(ViewId(3, "ab"), position + 1, ME, pack_bodies([BODY]))
    store.write([Appended(position, run)])


def log_bytes(directory: Path) -> int:
    return (directory / "group.db-wal").stat().st_size


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_the_log_restarts_while_entries_are_written(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    position = 0
    for wanted in (1, 2, 3):
        while store._backfill.rounds < wanted:
            append(store, position)
            position += 1
            assert position < 20 * COUNT
        assert position >= wanted * COUNT / 2
    assert log_bytes(tmp_path) <= (LOG_PAGES_MAX + 1_000) * PAGE_BYTES
    before = contents(store.load())
    store.close()
    assert held(tmp_path) == before


def test_no_commit_waits_for_a_checkpoint(tmp_path: Path) -> None:
    """With the thread blocked in the middle of a checkpoint, commits continue; then the checkpoint continues."""
    holds, held_up = threading.Event(), threading.Event()

    class Held(sqlite3.Connection):
        def execute(self, *arguments: object) -> sqlite3.Cursor:
            held_up.set()
            holds.wait(20)
            return super().execute(*arguments)  # type: ignore[arg-type]

    store = open_store(tmp_path)
    file = tmp_path / database_file.FILE
    store._backfill = Backfill(
        file, lambda: sqlite3.connect(file, isolation_level=None, check_same_thread=False, factory=Held)
    )
    for position in range(COUNT):
        append(store, position)
    assert held_up.wait(20)
    for position in range(COUNT, COUNT + 20):
        append(store, position)
    assert store._backfill.rounds == 0
    holds.set()
    wait_for(store._backfill._copied.is_set, "the copy")
    append(store, COUNT + 20)
    assert store._backfill.rounds == 1
    assert store.load().log.end == COUNT + 21
    store.close()


def test_the_log_is_bounded_without_the_thread(tmp_path: Path) -> None:
    def refuse() -> sqlite3.Connection:
        raise DiskUnwritable("not today")

    store = open_store(tmp_path)
    store._backfill = Backfill(tmp_path / database_file.FILE, refuse)
    for position in range(8 * COUNT):
        append(store, position)
        if position % COUNT == COUNT - 1:
            store.write([Snapshotted(position, (), b"state"), Truncated(position)])
    assert store._backfill.rounds == 0
    assert log_bytes(tmp_path) <= (LOG_PAGES_MAX + 100) * PAGE_BYTES
    before = contents(store.load())
    store.close()
    assert held(tmp_path) == before


def test_a_closed_store_leaves_no_thread_and_no_descriptors(tmp_path: Path) -> None:
    descriptors = open_descriptors()
    store = open_store(tmp_path)
    position = 0
    while store._backfill.rounds < 1:
        append(store, position)
        position += 1
    store.close()
    assert not any(thread.name == "cluster-backfill" for thread in threading.enumerate())
    assert open_descriptors() == descriptors


def test_close_at_the_end_of_a_checkpoint_does_not_block(tmp_path: Path) -> None:
    """The close signal arrives just before the thread clears its last wake-up."""

    class ClosedJustBefore(threading.Event):
        def clear(self) -> None:
            backfill._ends = True
            self.set()
            super().clear()

    store = open_store(tmp_path)
    backfill = store._backfill
    backfill._begin = ClosedJustBefore()
    for position in range(COUNT):
        append(store, position)
    thread = backfill._thread
    assert thread is not None
    thread.join(5)
    assert not thread.is_alive()
    store.close()
