"""The wall clock of running processes is set back and forward by hours, and nobody notices but the log.

A few lines of C stand before the C library of each member and move its wall clock as the test says.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.runtime.members import Cluster
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.cluster.runtime.members import Member

SOURCE = Path(__file__).with_name("wallclock.c")
HOUR_S = 3600


class WallClocks:
    """A wall clock for each member."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("there is no C compiler to make a wall clock with")
        self._folder = folder
        self._library = folder / "wallclock.so"
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", self._library, SOURCE, "-ldl"], check=True, timeout=60
        )

    def before(self, name: str) -> tuple[str, ...]:
        self.set(name, 0)
        return ("env", f"LD_PRELOAD={self._library}", f"WALLCLOCK={self._file(name)}")

    def set(self, name: str, offset_s: int) -> None:
        with self._file(name).open("r+b" if self._file(name).exists() else "w+b", buffering=0) as file:
            file.write(struct.pack("=q", offset_s))

    def _file(self, name: str) -> Path:
        return self._folder / f"clock-{name}"


def shown_offset_s(member: Member) -> float:
    """How far from ours the clock of its last line in the log is."""
    stamps = [line[:19] for line in member.stderr.splitlines() if line[:2] == "20"]
    return datetime.strptime(stamps[-1], "%Y-%m-%d %H:%M:%S").timestamp() - time.time() if stamps else 0.0  # noqa: DTZ007


def changes(cluster: Cluster) -> int:
    return sum(member.stderr.count("start_change") for member in cluster.members.values())


def test_a_wall_clock_that_jumps_changes_nothing(tmp_path: Path) -> None:
    clocks = WallClocks(tmp_path)
    with Cluster(tmp_path, durable=True) as cluster:
        for name in "abc":
            cluster.start(name, before=clocks.before(name))
        cluster.wait_for_primary("abc").load(2).wait_until_confirmed_at("abc", 20)
        seen = [changes(cluster)]
        for a, b, c in ((0, -HOUR_S, 0), (HOUR_S, -HOUR_S, 5 * HOUR_S), (-HOUR_S, HOUR_S, 0)):
            for name, offset_s in zip("abc", (a, b, c), strict=True):
                clocks.set(name, offset_s)
            cluster.wait_until_confirmed_at("abc", 20)
            seen.append(changes(cluster))
        # a machine that is busy may make a view change at any time; wall clocks would, each time
        assert any(one == other for one, other in pairwise(seen)), "views changed whenever wall clocks did"
        cluster.members["c"].kill()
        cluster.wait_for_primary("ab").wait_until_confirmed_at("ab", 20)
        for name, offset_s in (("a", -HOUR_S), ("b", HOUR_S)):  # their clocks really were moved
            assert abs(shown_offset_s(cluster.members[name]) - offset_s) < HOUR_S / 4
        cluster.start("c", before=clocks.before("c"))
        cluster.wait_for_primary("abc").wait_until_confirmed_at("ab", 20)
        wait_for(lambda: cluster.members["c"].status.get("position", 0) > 0, "c goes on")
        cluster.quiet().stop().judge()
