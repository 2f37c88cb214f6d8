"""`inspect` and `recover` on real disks that the real stack wrote in a simulated world."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.durable import Boot
from cluster.runtime.commands.main import main
from cluster.runtime.disk.store import Store
from cluster.runtime.disk.store_errors import ForeignDisk
from tests.cluster.runtime.disk.images import contents
from tests.cluster.runtime.disk.simulated_stores import disk, world_on_disks
from tests.cluster.runtime.disk.test_store import MEMORY, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.sim.world import World


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def kill_all(world: World) -> None:
    for node in world.running():
        world.crash(node.name)
        disk(world, node.name).kill()


def test_the_stack_on_real_disks_through_crashes_and_snapshots(place: Path) -> None:
    world = world_on_disks(place, "abc")
    for i in range(60):
        world.broadcast("abc"[i % 3], b"%d" % i)
        if i % 20 == 10:
            world.crash("b").run(2.0).restart("b")
        world.run(0.3)
    world.settle()
    kill_all(world)
    for name in "abc":
        world.restart(name)
    world.settle()
    assert world.has_primary("abc")
    assert len(world.delivered("a")) >= 57  # entries that b had not labelled are lost with it
    image = disk(world, "a").image
    assert image.snapshot is not None
    assert image.log.base > 0


def test_inspect_shows_what_a_running_node_has_on_disk(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = world_on_disks(place, "abc")
    for i in range(25):
        world.broadcast("a", b"entry %d" % i)
    world.settle().broadcast("a", b"the last").broadcast("a", b"\x01\xff").settle()
    held = disk(world, "a")
    code, out, _ = shown(capsys, "inspect", held.directory, "--entries", 20)
    assert code == 0
    assert held.me is not None
    assert held.image.snapshot is not None
    for expected in (
        "(in use by a node)",
        "cluster       shop",
        f"process       a, incarnation {held.me.incarnation}, the founder",
        "boot          1",
        f"high primary  {held.image.high_primary}",
        f"snapshot      at {held.image.snapshot.position}, ",
        "entry, 8 bytes: the last",
        "entry, 2 bytes: 01ff",
        "checkpoint, 36 bytes: of 30, digest",
    ):
        assert expected in out
    code, out, _ = shown(capsys, "inspect", held.directory, "--json", "--entries", "2")
    found = json.loads(out)
    assert found["in_use"] is True
    assert found["process"] == list(held.me)
    assert found["epoch"] == held.image.epoch
    assert found["log_end"] == held.image.log.end
    assert len(found["last_entries"]) == 2
    assert found["recoveries"] == []


def test_inspect_changes_nothing_on_a_disk_that_a_crash_left(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = world_on_disks(place, "a")
    world.broadcast("a", b"x").settle()
    kill_all(world)
    directory = disk(world, "a").directory
    before = {name: (directory / name).read_bytes() for name in ("group.db", "group.db-wal")}
    code, out, _ = shown(capsys, "inspect", directory)
    assert code == 0
    assert "(left by a crash)" in out
    assert {name: (directory / name).read_bytes() for name in before} == before


def test_inspect_shows_what_can_be_read_of_a_damaged_disk(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = world_on_disks(place, "a")
    for i in range(20):
        world.broadcast("a", b"%d" % i).settle()
    kill_all(world)
    log = disk(world, "a").directory / "group.db-wal"
    content = bytearray(log.read_bytes())
    content[32 + 20 * 4120] ^= 1
    log.write_bytes(content)
    code, out, _ = shown(capsys, "inspect", log.parent)
    assert code == 1
    assert out.startswith("DAMAGED       ")
    assert "are unreadable" in out
    assert "process       a, incarnation" in out
    (log.parent / "group.db").write_bytes(b"nonsense" * 1000)
    code, out, err = shown(capsys, "inspect", log.parent)
    assert (code, out) == (1, "")
    assert "is damaged" in err


def test_inspect_rejects_a_directory_without_a_disk(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(capsys, "inspect", place)
    assert (code, out) == (1, "")
    assert "there is no group.db" in err


def lost_majority(place: Path) -> tuple[World, list[Path]]:
    world = world_on_disks(place, "abcde")
    world.broadcast("a", b"1").broadcast("e", b"2").settle()
    kill_all(world)
    return world, [disk(world, name).directory for name in "abcde"]


def test_recover_two_of_five(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world, directories = lost_majority(place)
    code, out, _ = shown(capsys, "recover", "--yes", *directories[2:4])
    assert code == 0
    for expected in ("last resort", "What may be lost", "given up", "cannot be undone", "done. The group is 'shop+"):
        assert expected in out
    cluster_id = out.split("The group is '")[1].split("'")[0]

    for name in "cd":  # the continuing nodes need the new id
        with pytest.raises(ForeignDisk, match="configure this node with the new id"):
            open_store(disk(world, name).directory, name)
        disk(world, name).reset(cluster_id)
        world.restart(name)
    world.run(10.0)
    assert world.has_primary("cd")
    world.broadcast("c", b"3").settle()
    assert world.delivered("c") == world.delivered("d")
    assert {*world.delivered("c")} == {b"1", b"2", b"3"}

    code, out, _ = shown(capsys, "inspect", disk(world, "d").directory)
    assert "RECOVERED" in out
    assert f"'shop' became '{cluster_id}'" in out

    with pytest.raises(ForeignDisk, match="this process was given up"):  # and the given-up ones are refused
        open_store(directories[0], "a", cluster_id)
    store = disk(world, "c").store
    assert store is not None
    (mark,) = store.recoveries
    assert store.founding == mark.founding
    assert [process.name for process in mark.kept] == ["c", "d"]
    assert {process.name for process in mark.given_up} >= {"a", "b", "e"}


def test_recover_asks_for_confirmation_and_can_be_declined(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, directories = lost_majority(place)
    store = Store.open_any(directories[4])
    before = contents(store.load())
    store.close()
    monkeypatch.setattr("builtins.input", lambda _prompt: "yes")
    code, out, _ = shown(capsys, "recover", directories[4])
    assert (code, out.splitlines()[-1]) == (1, "nothing was changed")
    store = Store.open_any(directories[4])
    assert (contents(store.load()), store.cluster_id, store.recoveries) == (before, "shop", ())
    store.close()
    monkeypatch.setattr("builtins.input", lambda _prompt: "shop")
    code, out, _ = shown(capsys, "recover", directories[4])
    assert code == 0


def test_recover_refuses_unneeded_and_impossible_recoveries(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, directories = lost_majority(place)
    code, _, err = shown(capsys, "recover", "--yes", *directories)
    assert code == 1
    assert "No recovery is needed" in err
    shutil.copytree(directories[3], place / "copy")
    _, _, err = shown(capsys, "recover", "--yes", directories[3], place / "copy")
    assert "one is a copy of the other" in err
    running = Store.open_any(directories[2])
    _, _, err = shown(capsys, "recover", "--yes", directories[2])
    assert "is in use by process" in err
    running.close()
    other = open_store(place / "other", cluster_id="bank")
    other.close()
    _, _, err = shown(capsys, "recover", "--yes", directories[2], place / "other")
    assert "belong to different groups" in err


def test_an_interrupted_recovery_can_be_finished(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, directories = lost_majority(place)
    shutil.copytree(directories[3], place / "d")
    shutil.copytree(directories[4], place / "e")
    assert shown(capsys, "recover", "--yes", directories[2], directories[3])[0] == 0
    both = [directories[2], place / "d"]  # as if the second had not been reached
    if "shop+" not in shown(capsys, "inspect", both[0])[1]:
        pytest.fail("the first disk has no mark")
    code, out, _ = shown(capsys, "recover", "--yes", *both)
    assert code == 0
    assert "finished the recovery" in out
    marks = []
    for directory in both:
        store = Store.open_any(directory)
        store.write([Boot(9)])
        marks.append((store.cluster_id, store.founding, store.recoveries, store.load().act))
        store.close()
    assert marks[0] == marks[1]
    _, _, err = shown(capsys, "recover", "--yes", directories[2], place / "e")
    assert "took no part in the recovery" in err
