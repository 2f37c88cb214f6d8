"""A disk that is really full, or slow, under a real process: the others go on; it comes back, or stops and says why.

The full disk is a small tmpfs in a mount namespace that only the member sees; the test reaches it through /proc.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.cluster.runtime.members import Cluster
from tests.cluster.runtime.preloaded import Preloaded
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.runtime.members import Member

SIZE = "24m"
IN_A_PLACE_OF_ITS_OWN = ("unshare", "--mount", "--map-root-user", "sh", "-c")
MOUNT = f'mount -t tmpfs -o size={SIZE},mode=700 none "$0" && exec "$@"'


def small_disk(folder: Path) -> tuple[str, ...]:
    """What to put before the command of a member, so that `folder` is a small disk for it alone."""
    folder.mkdir()
    before = (*IN_A_PLACE_OF_ITS_OWN, MOUNT, str(folder))
    try:
        done = subprocess.run([*before, "true"], capture_output=True, text=True, check=False, timeout=20)
    except FileNotFoundError:
        pytest.skip("there is no 'unshare' command (util-linux)")
    if done.returncode:
        pytest.skip(f"no file system of one's own can be mounted here: {done.stderr.strip()}")
    return before


def fill(member: Member, folder: Path) -> Path:
    """Take all the room that is left on the disk of this member."""
    filler = folder_of(member, folder) / "filler"
    place = os.statvfs(filler.parent)
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        for _ in range(2 * place.f_blocks):
            file.write(bytes(place.f_frsize))
    wait_for(lambda: os.statvfs(filler.parent).f_bavail == 0, "no room is left")
    return filler


def folder_of(member: Member, folder: Path) -> Path:
    root = f"/proc/{member.process.pid}/root"
    return type(folder)(root + os.fspath(folder))


def test_a_full_disk_is_waited_for_while_the_others_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "data-c"
    before = small_disk(folder)
    with Cluster(tmp_path, durable=True) as cluster:
        for name in "ab":
            cluster.start(name, "--size", "20000")
        c = cluster.start("c", "--size", "20000", "--disk-wait", "60", before=before)
        cluster.wait_for_primary("abc").load(4).wait_until_confirmed_at("abc", 20)
        filler = fill(c, folder)
        wait_for(lambda: "waits for its disk" in c.stderr, "c notices that its disk is full", 60.0)
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
        fill(c, folder)
        assert c.process.wait(60) == 1
        assert "this member stops: the disk was full for" in c.stderr
        assert "Make room" in c.stderr
        assert "Traceback" not in c.stderr
        wait_for(lambda: c.events[-1]["event"] == "closed", "c says why it ended")
        assert "no space left" in c.events[-1]["error"]
        cluster.wait_for_primary("ab").wait_until_confirmed_at("ab", 20)
        del cluster.members["c"]
        c.kill()
        cluster.quiet().stop().judge()


def test_a_disk_that_is_slow_slows_and_one_that_stands_still_is_left_behind(tmp_path: Path) -> None:
    disks = Preloaded(tmp_path, "slowdisk")
    with Cluster(tmp_path, durable=True) as cluster:
        for name in "ab":
            cluster.start(name)
        c = cluster.start("c", before=disks.before("c"))
        cluster.wait_for_primary("abc").load(2).wait_until_confirmed_at("abc", 10)
        disks.set("c", 100)
        cluster.wait_until_confirmed_at("abc", 10)  # all wait for the slowest, which keeps up
        disks.set("c", 5_000)
        cluster.wait_for_primary("ab").wait_until_confirmed_at("ab", 20)
        assert c.process.poll() is None
        disks.set("c", 0)
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 10)
        cluster.quiet().stop().judge()
