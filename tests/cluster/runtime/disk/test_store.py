"""A store holds what the same records leave in an image, at every moment of its life."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from cluster.durable import Appended, Boot, Image, Labelled, Snapshotted, Truncated, founding_image
from cluster.entries import pack_bodies
from cluster.names import ProcessId, ViewId
from cluster.run_log import Run
from cluster.runtime.disk.store import Purpose, Store
from cluster.runtime.disk.store_errors import ForeignDisk
from tests.cluster.runtime.disk.images import ME, contents, copy, histories

if TYPE_CHECKING:
    from cluster.durable import Record

MEMORY = Path("/dev/shm")  # a memory file system, if there is one: hundreds of disks are created here


def open_store(directory: Path, name: str = "a", cluster_id: str = "shop", *, founding: bool = False) -> Store:
    purpose = Purpose.FOUNDING if founding else Purpose.JOINING
    return Store.open(directory, create_for=purpose, name=name, cluster_id=cluster_id)


def held(directory: Path) -> dict[str, object]:
    store = open_store(directory)
    try:
        return contents(store.load())
    finally:
        store.close()


def run(seqno: int, count: int = 1, origin: ProcessId = ME) -> Run:
    return Run(ViewId(3, "ab"), seqno, origin, pack_bodies([b"%d" % i for i in range(count)]))


def test_a_new_disk_is_empty_and_has_a_new_identity(tmp_path: Path) -> None:
    stores = [open_store(tmp_path / str(i)) for i in range(3)]
    assert len({store.me for store in stores}) == 3
    for store in stores:
        assert store.me.name == "a"
        assert store.me.incarnation > 0
        assert not store.founder
        assert contents(store.load()) == contents(Image())
        store.close()


def test_a_founder_has_registered_the_first_view(tmp_path: Path) -> None:
    store = open_store(tmp_path, founding=True)
    assert store.founder
    assert contents(store.load()) == contents(founding_image(store.me))
    store.close()


def test_a_process_that_kept_its_disk_is_the_same(tmp_path: Path) -> None:
    store = open_store(tmp_path, founding=True)
    me = store.me
    store.write([Boot(4)])
    store.close()
    store.close()  # close is idempotent
    again = open_store(tmp_path)
    assert (again.me, again.load().boot, again.founder) == (me, 4, True)
    again.close()


def test_the_founding_of_a_process_never_changes(tmp_path: Path) -> None:
    founder = open_store(tmp_path / "a", founding=True)
    store = open_store(tmp_path / "b", "b")
    assert len(founder.founding) == 32
    assert store.founding == ""
    store.belong_to(founder.founding)
    store.belong_to(founder.founding)
    with pytest.raises(ForeignDisk, match="not to another"):
        store.belong_to("another")
    store.close()
    again = open_store(tmp_path / "b", "b")
    assert again.founding == founder.founding
    again.close()
    founder.close()


@given(history=histories())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_after_every_transaction_a_crash_leaves_what_the_records_say(history: list[list[Record]]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        directory = Path(name)
        store = open_store(directory / "disk")
        image = Image()
        states = []
        for i, records in enumerate(history):
            store.write(records)
            for record in records:
                image.apply(record)
            states.append(contents(copy(image)))
            crashed = directory / str(i)
            crashed.mkdir()
            for file in (directory / "disk").glob("group.db*"):
                if not file.name.endswith("-shm"):  # memory, not disk
                    shutil.copy(file, crashed)
        assert contents(store.load()) == states[-1]
        for i, state in enumerate(states):
            assert held(directory / str(i)) == state
        store.close()
        assert held(directory / "disk") == states[-1]


def test_a_transaction_is_synced_to_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()
    with pytest.raises(ValueError, match="is closed: open it again"):
        store.write([Boot(1)])


def test_a_run_that_is_labelled_and_ordered_at_once_is_written_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.write([Labelled(run(1, 3)), Appended(0, run(1, 3)), Labelled(run(4))])
    assert store._connection.execute("SELECT count(*) FROM labelled").fetchone() == (1,)
    assert store._connection.execute("SELECT length FROM runs").fetchall() == [(3,)]
    store.write([Appended(3, run(4))])
    assert store._connection.execute("SELECT count(*) FROM labelled").fetchone() == (0,)
    store.close()


def test_a_record_that_does_not_fit_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.write([Appended(0, run(1, 3)), Labelled(run(4))])
    with pytest.raises(ValueError, match=r"continues at position 7, but the order on disk is 0\.\.4"):
        store.write([Boot(9), Appended(3, run(4)), Appended(7, run(5))])
    store.write([Appended(3, run(4))])
    found = store.load()
    assert (found.boot, found.log.end, found.labelled) == (0, 4, {})
    store.close()


def test_deleted_rows_make_room_for_new_ones(tmp_path: Path) -> None:
    """Ten thousand entries of a kilobyte through a log that is kept short: the file stays small."""
    store = open_store(tmp_path)
    body = os.urandom(1000)
    for i in range(0, 10_000, 50):
        entries = pack_bodies([body] * 50)
        store.write([Appended(i, Run(ViewId(3, "ab"), i, ME, entries)), Snapshotted(i, (), body), Truncated(i - 200)])
    store.close()
    assert store.file.stat().st_size < 2_000_000
