"""Really full or slow disks under real processes: the others continue; the member resumes, or stops with a clear error.

A process refuses to start on a damaged or foreign disk, and says what it is and what to do.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cluster.runtime.disk.database_file import FILE
from cluster.runtime.disk.store import Purpose, Store
from cluster.runtime.net.keys import make_key_file
from tests.cluster.runtime.members import TOP, Cluster
from tests.cluster.runtime.preloaded import Preloaded
from tests.support.smalldisk import fill, small_disk
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


def test_a_member_waits_for_a_full_disk_while_the_others_continue(tmp_path: Path) -> None:
    folder = tmp_path / "data-c"
    before = small_disk(folder)
    with Cluster(tmp_path, durable=True) as cluster:
        for name in "ab":
            cluster.start(name, "--size", "20000")
        c = cluster.start("c", "--size", "20000", "--disk-wait", "60", before=before)
        cluster.wait_for_primary("abc").load(4).wait_until_confirmed_at("abc", 20)
        filler = fill(c.process, folder)
        wait_for(lambda: "the disk is full" in c.stderr, "c notices that its disk is full", 60.0)
        cluster.wait_for_primary("ab").wait_until_confirmed_at("ab", 20)
        assert c.process.poll() is None
        filler.unlink()
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 20)
        cluster.quiet().stop().judge()


def test_a_disk_that_stays_full_stops_its_member_with_a_clear_error(tmp_path: Path) -> None:
    folder = tmp_path / "data-c"
    before = small_disk(folder)
    with Cluster(tmp_path, durable=True) as cluster:
        for name in "ab":
            cluster.start(name, "--size", "20000")
        c = cluster.start("c", "--size", "20000", "--disk-wait", "1", before=before)
        cluster.wait_for_primary("abc").load(4).wait_until_confirmed_at("abc", 20)
        fill(c.process, folder)
        assert c.process.wait(60) == 1
        assert "this member stops: the disk was full for" in c.stderr
        assert "Free some space" in c.stderr
        assert "Traceback" not in c.stderr
        wait_for(lambda: c.events[-1]["event"] == "closed", "c says why it ended")
        assert "no space left" in c.events[-1]["error"]
        cluster.wait_for_primary("ab").wait_until_confirmed_at("ab", 20)
        del cluster.members["c"]
        c.kill()
        cluster.quiet().stop().judge()


def test_a_slow_disk_slows_the_group_and_a_stuck_one_is_excluded(tmp_path: Path) -> None:
    disks = Preloaded(tmp_path, "slowdisk")
    with Cluster(tmp_path, durable=True) as cluster:
        for name in "ab":
            cluster.start(name)
        c = cluster.start("c", before=disks.before("c"))
        cluster.wait_for_primary("abc").load(2).wait_until_confirmed_at("abc", 10)
        disks.set("c", 100)
        cluster.wait_until_confirmed_at("abc", 10)  # all wait for the slowest member, which keeps up
        disks.set("c", 5_000)
        cluster.wait_for_primary("ab").wait_until_confirmed_at("ab", 20)
        assert c.process.poll() is None
        disks.set("c", 0)
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 10)
        cluster.quiet().stop().judge()


def spoil(disk: Path, how: str) -> None:
    file = disk / FILE
    if how == "damaged":
        content = bytearray(file.read_bytes())
        content[100:2000] = bytes(1900)
        file.write_bytes(content)
    elif how == "no database":
        file.write_bytes(b"a letter to somebody else\n" * 400)
    elif how == "of another program":
        for part in disk.iterdir():
            part.unlink()
        database = sqlite3.connect(file)
        database.execute("CREATE TABLE letters (text)")
        database.commit()
        database.close()


@pytest.mark.parametrize(
    ("how", "arguments", "complaints"),
    [
        ("damaged", (), ("is damaged", "Move the directory away", "joins as a new process")),
        ("no database", (), ("is damaged", "Move the directory away")),
        ("of another program", (), ("of another program", "its own directory")),
        ("of another node", ("--name", "b"), ("belongs to the node 'a'", "this node is 'b'")),
        ("of another cluster", ("--cluster", "shop"), ("belongs to the cluster 'cluster'", "configured for 'shop'")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_process_refuses_a_damaged_or_foreign_disk(
    tmp_path: Path, how: str, arguments: tuple[str, ...], complaints: tuple[str, ...]
) -> None:
    make_key_file(tmp_path / "key")
    disk = tmp_path / "disk"
    Store.open(disk, create_for=Purpose.FOUNDING, name="a", cluster_id="cluster").close()
    spoil(disk, how)
    before = (disk / FILE).read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "cluster", "node", "--key-file", str(tmp_path / "key"), "--data", str(disk), "--name",
         "a", "--join", "127.0.0.1:1", *arguments],
        cwd=TOP, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("python -m cluster node: ")
    for complaint in complaints:
        assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert (disk / FILE).read_bytes() == before
