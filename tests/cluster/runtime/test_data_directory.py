"""Compatibility: this version opens a data directory that an earlier version wrote, and a member resumes from it.

`tests/cluster/data/node` is the disk of a founder after two boots, as a crash left it: a snapshot, a log, and a
labelled entry that was not ordered. `node.json` is the output of `python -m cluster inspect --json` for it. Neither is
ever regenerated.
"""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from cluster.runtime.commands.inspection import as_json, inspect
from cluster.runtime.disk.store import Purpose, Store
from cluster.runtime.net.keys import make_key_file
from tests.cluster.runtime.members import Member
from tests.support.waiting import wait_for

DATA = Path(__file__).resolve().parents[1] / "data"
ENTRIES = 33  # application entries in the order
LABELLED = b"labelled, in no order yet"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return shutil.copytree(DATA / "node", tmp_path / "node")


def test_inspect_output_is_unchanged(disk: Path) -> None:
    found = json.loads(as_json(inspect(disk, 100)))
    del found["directory"], found["file_sizes"]
    assert found == json.loads((DATA / "node.json").read_text())


def test_a_store_opens_the_old_disk(disk: Path) -> None:
    store = Store.open(disk, create_for=Purpose.JOINING, name="a", cluster_id="shop")
    try:
        image = store.load()
        assert store.founder
        assert [body for run in image.labelled.values() for body in run.pack.bodies()] == [LABELLED]
        bodies = [entry.body for _, entry in image.log.since(image.log.base) if entry.kind == "a"]
        assert bodies == [b"entry %d" % number for number in range(28, ENTRIES)]
        assert image.snapshot is not None
        _view, _checkpoints, machine = msgspec.msgpack.decode(image.snapshot.state)
        assert msgspec.msgpack.decode(machine)[0] == 28  # entries that the state machine had counted
    finally:
        store.close()


def test_a_member_resumes_from_the_old_disk(disk: Path, tmp_path: Path) -> None:
    key, order_log = tmp_path / "key", tmp_path / "order"
    make_key_file(key)
    common = ["--key-file", str(key), "--cluster", "shop"]
    member = Member("a", [*common, "--data", str(disk), "--order-log", str(order_log)], tmp_path, [])
    other = Member("b", [*common, "--join", member.address], tmp_path, [])
    try:
        member.say("more")
        wait_for(lambda: member.confirmed("more"), "a new entry to be confirmed")
        wait_for(
            lambda: other.status.get("count") == ENTRIES + 2 and other.status["state"] == member.status["state"],
            "a new member to have the same state",
        )
    finally:
        codes = other.stop(), member.stop()
    assert codes == (0, 0), member.stderr
    lines = [json.loads(line) for line in order_log.read_text().splitlines()]
    assert sha256(LABELLED).hexdigest() in [line["sha256"] for line in lines if line["i"] >= 40]
    assert member.status["count"] == ENTRIES + 2
