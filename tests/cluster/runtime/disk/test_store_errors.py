"""A damaged, foreign or full disk is refused with a message that says what to do, and is left unchanged."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cluster.durable import Appended, Boot, Image, Labelled, Primaries, Snapshotted
from cluster.entries import pack_bodies
from cluster.names import ProcessId, ViewId, make_view
from cluster.run_log import Run
from cluster.runtime.disk import database_file
from cluster.runtime.disk.database_file import frames_taken
from cluster.runtime.disk.rows import DiskIdentity
from cluster.runtime.disk.store import Store
from cluster.runtime.disk.store_errors import (
    DamagedDisk,
    DiskExists,
    DiskFull,
    DiskInUse,
    DiskUnwritable,
    ForeignDisk,
    NewerDisk,
    NoDisk,
    StoreError,
)
from tests.cluster.runtime.disk.images import ME, contents
from tests.cluster.runtime.disk.test_store import held, open_store, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def filled(directory: Path, transactions: int = 12) -> dict[str, object]:
    """A closed disk with rows in every table."""
    store = open_store(directory)
    write(store, transactions)
    said = contents(store.load())
    store.close()
    return said


def write(store: Store, transactions: int) -> None:
    store.write([Boot(2), Primaries(make_view(3, {ME: 1}), (make_view(4, {ME: 2}),))])
    position = 0
    for i in range(transactions):
        entries = pack_bodies([bytes([i]) * 500] * 5)
        store.write([Appended(position, Run(ViewId(3, "ab"), position, ProcessId("b"), entries))])
        position += 5
    store.write([Snapshotted(3, (), b"s" * 5_000), Labelled(run(1_000))])


def crashed(directory: Path, to: Path) -> None:
    """A copy of the disk as a crash at this moment would leave it."""
    to.mkdir()
    for file in directory.glob("group.db*"):
        if not file.name.endswith("-shm"):
            shutil.copy(file, to)


def files(directory: Path) -> dict[str, bytes]:
    """The files of a disk. An empty log, which SQLite leaves after a read-only open, does not count."""
    found = {name: directory / name for name in ("group.db", "group.db-wal")}
    return {name: file.read_bytes() for name, file in found.items() if file.exists() and file.stat().st_size}


def log_end(directory: Path) -> int:
    """The offset of the next write to the log."""
    return 32 + frames_taken(directory / "group.db") * (24 + 4096)


def refused(directory: Path, kind: type[StoreError], *words: str) -> None:
    before = files(directory)
    for _ in range(2):  # a second attempt gets the same error
        with pytest.raises(kind) as caught:
            open_store(directory)
        for word in words:
            assert word in str(caught.value)
        assert files(directory) == before


def test_a_second_founding(tmp_path: Path) -> None:
    open_store(tmp_path, founding=True).close()
    with pytest.raises(DiskExists, match="founded once: start the node without founding"):
        open_store(tmp_path, founding=True)


def test_the_disk_of_another_node(tmp_path: Path) -> None:
    open_store(tmp_path, "b").close()
    refused(tmp_path, ForeignDisk, "belongs to the node 'b'", "this node is 'a'", "Start it under that name")


def test_the_disk_of_another_cluster(tmp_path: Path) -> None:
    open_store(tmp_path, cluster_id="bank").close()
    refused(
        tmp_path, ForeignDisk, "belongs to the cluster 'bank'", "configured for 'shop'", "Is it the right directory?"
    )


def test_a_database_of_another_program(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "group.db")
    connection.execute("CREATE TABLE meta (x)")
    connection.close()
    refused(tmp_path, ForeignDisk, "of another program", "its own directory")


def test_a_later_schema(tmp_path: Path) -> None:
    filled(tmp_path)
    connection = sqlite3.connect(tmp_path / "group.db")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    refused(tmp_path, NewerDisk, "schema 2; this one knows up to 1", "Start the later version")


def test_two_processes_on_one_directory(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with pytest.raises(DiskInUse, match=f"in use by process {os.getpid()}.*give this node another directory"):
        open_store(tmp_path)
    code = "import sys; from tests.cluster.runtime.disk.test_store import *; open_store(Path(sys.argv[1]))"
    other = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert other.returncode != 0
    assert "DiskInUse" in other.stderr
    store.close()
    open_store(tmp_path).close()


def test_no_disk_at_all(tmp_path: Path) -> None:
    with pytest.raises(NoDisk, match="Is this the data directory of a node"):
        Store.open_any(tmp_path)


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskUnwritable, match="needs a directory"):
        open_store(tmp_path / "file")


@pytest.mark.parametrize("content", [b"", b"x" * 5_000], ids=["empty", "garbage"])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "group.db").write_bytes(content)
    refused(tmp_path, StoreError, "group.db")


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_a_truncated_file(tmp_path: Path, keep: float) -> None:
    filled(tmp_path)
    file = tmp_path / "group.db"
    os.truncate(file, int(file.stat().st_size * keep))
    refused(tmp_path, DamagedDisk, "damaged", "joins as a new process", "Do not restore an older copy")


def test_a_database_without_its_log(tmp_path: Path) -> None:
    store = open_store(tmp_path / "disk")
    write(store, 3)
    crashed(tmp_path / "disk", tmp_path / "copy")
    (tmp_path / "copy/group.db-wal").unlink()
    refused(tmp_path / "copy", DamagedDisk, "its log group.db-wal is missing")
    store.close()


def test_a_log_without_its_database(tmp_path: Path) -> None:
    store = open_store(tmp_path / "disk")
    write(store, 3)
    crashed(tmp_path / "disk", tmp_path / "copy")
    (tmp_path / "copy/group.db").unlink()
    refused(tmp_path / "copy", DamagedDisk, "group.db is missing, but its log exists")
    store.close()


def test_leftovers_of_a_killed_creation_are_removed(tmp_path: Path) -> None:
    """Above all its journal: SQLite would roll the new database back with it."""
    for name in ("group.db.new", "group.db.new-journal", "group.db.new-wal"):
        (tmp_path / name).write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" * 600)
    open_store(tmp_path).close()
    assert held(tmp_path) == contents(Image())
    assert not [*tmp_path.glob("group.db.new*"), *tmp_path.glob("*-journal")]


def test_a_disk_never_has_a_rollback_journal(tmp_path: Path) -> None:
    """It has a write-ahead log from the start, so a read-only open works whenever its process was killed."""
    database_file.create(tmp_path, DiskIdentity("shop", "a", 7, False), "")
    connection = database_file.connect_read_only(tmp_path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_torn_end_of_the_log_is_a_crash_and_not_damage(tmp_path: Path) -> None:
    """The last transaction, cut anywhere, was not acknowledged: all before it is there."""
    store = open_store(tmp_path / "disk")
    write(store, 3)
    before = contents(store.load())
    whole = log_end(tmp_path / "disk")
    store.write([Appended(15, run(1, 40))])
    end = log_end(tmp_path / "disk")
    for i, size in enumerate((whole, whole + 10, whole + 500, end - 4_000, end - 1)):
        crashed(tmp_path / "disk", tmp_path / str(i))
        os.truncate(tmp_path / str(i) / "group.db-wal", size)
        assert held(tmp_path / str(i)) == before
    store.close()


def test_a_changed_byte_in_the_log(tmp_path: Path) -> None:
    """It is detected, or has no effect, or is in the last transaction: then it looks like a crash."""
    store = open_store(tmp_path / "disk")
    write(store, 12)
    before, last = contents(store.load()), log_end(tmp_path / "disk")
    store.write([Boot(7), Appended(60, run(1, 40))])
    after, end = contents(store.load()), log_end(tmp_path / "disk")
    content = files(tmp_path / "disk")["group.db-wal"]
    chance = random.Random(3)
    places = [*range(0, 32, 3), *range(32, 56, 3), *(chance.randrange(end) for _ in range(60)), last + 1, end - 1]
    for i, place in enumerate(places):
        crashed(tmp_path / "disk", tmp_path / str(i))
        changed = bytearray(content)
        changed[place] ^= 1 << chance.randrange(8)
        (tmp_path / str(i) / "group.db-wal").write_bytes(changed)
        try:
            found = held(tmp_path / str(i))
        except DamagedDisk:
            assert place < last
        else:
            assert found == after or (found == before and place >= last), f"byte {place} of {last}, {end}"
        shutil.rmtree(tmp_path / str(i))
    store.close()


def test_any_changed_byte_is_detected_or_has_no_effect(tmp_path: Path) -> None:
    said = filled(tmp_path / "disk")
    content = (tmp_path / "disk/group.db").read_bytes()
    chance = random.Random(5)
    noticed = 0
    for i in range(150):
        changed = bytearray(content)
        place = chance.randrange(len(changed))
        changed[place] ^= 1 << chance.randrange(8)
        directory = tmp_path / str(i)
        directory.mkdir()
        (directory / "group.db").write_bytes(changed)
        try:
            assert held(directory) == said, f"byte {place}"
        except StoreError:
            noticed += 1
        shutil.rmtree(directory)
    assert noticed > 50


def test_no_space_while_running(tmp_path: Path) -> None:
    """SQLite's own limit simulates a full disk. Nothing is half-written, and writes succeed when there is space."""
    store = open_store(tmp_path)
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages + 3}")
    image = Image()
    large = Snapshotted(0, (), b"x" * 100_000)
    with pytest.raises(DiskFull, match=r"no space left .* Nothing of the transaction was written\. Free some space"):
        store.write([Boot(5), Labelled(run(1)), large])
    assert contents(store.load()) == contents(image)
    store.write([Boot(3), Labelled(run(7))])
    store._connection.execute("PRAGMA max_page_count = 100000")
    store.write([Boot(5), Appended(0, run(7)), large])
    for record in (Boot(5), Labelled(run(7)), Appended(0, run(7)), large):
        image.apply(record)
    assert contents(store.load()) == contents(image)
    store.close()
    assert held(tmp_path) == contents(image)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, if the machine permits it."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"needs the right to mount a small file system (root): {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_real_disk_that_fills_up_and_has_space_again(small_disk: Path) -> None:
    store = open_store(small_disk)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 500_000)
    image = Image()
    position = 0
    for _ in range(1_000):
        records = [Appended(position, run(position, 50)), Boot(position)]
        try:
            store.write(records)
        except DiskFull:
            break
        position += 50
        for record in records:
            image.apply(record)
    else:
        pytest.fail("the disk never got full")
    assert contents(store.load()) == contents(image)
    with pytest.raises(DiskFull, match="Free some space"):
        store.write(records)
    ballast.unlink()
    store.write(records)
    for record in records:
        image.apply(record)
    assert contents(store.load()) == contents(image)
    store.close()
    assert held(small_disk) == contents(image)


def test_a_disk_that_is_full_from_the_start(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        (small_disk / "ballast").write_bytes(b"x" * 2_000_000)
    with pytest.raises(DiskFull, match="Free some space"):
        open_store(small_disk)
    (small_disk / "ballast").unlink()
    open_store(small_disk).close()


def test_a_read_only_disk(small_disk: Path) -> None:
    filled(small_disk, 3)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(DiskUnwritable, match="on a writable file system"):
        open_store(small_disk)
    with pytest.raises(DiskUnwritable, match="on a writable file system"):
        open_store(small_disk / "new")
