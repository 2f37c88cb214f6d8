"""Simulated runs on real disks: all specifications hold, and every disk equals its image."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.durable import Primaries, Rebuilt
from cluster.names import founding_view
from cluster.runtime.disk import database_file
from cluster.runtime.disk.store import Purpose, Store
from cluster.sim.disk import SimDisk
from cluster.sim.plan import make_plan
from cluster.sim.real_stack import play
from tests.cluster.runtime.disk.images import contents
from tests.cluster.runtime.disk.test_store import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.durable import Image, Record
    from cluster.names import ProcessId

SEEDS = range(300, 306)


class RealDisk(SimDisk):
    """A simulated disk with a store that must hold the same records."""

    place: Path  # parent directory of all disks
    made = 0

    def __init__(self, *, coded: bool = False) -> None:
        super().__init__(coded=coded)
        self.store = self._new()

    def _new(self) -> Store:
        RealDisk.made += 1
        return self._open(self.place / str(RealDisk.made))

    @staticmethod
    def _open(directory: Path) -> Store:
        return Store.open(directory, create_for=Purpose.JOINING, name="a", cluster_id="sim")

    def write(self, record: Record) -> None:
        super().write(record)
        self.store.write([record])

    def found(self, founder: ProcessId) -> None:
        super().found(founder)
        view = founding_view(founder)
        self.store.write([Primaries(view, ()), Rebuilt(0, (), view.id, 0, None)])

    def read(self) -> Image:
        """Read as after kill -9: from the files as they are."""
        left, me = self.store, self.store.me
        RealDisk.made += 1
        directory = self.place / str(RealDisk.made)
        directory.mkdir()
        for name in ("group.db", "group.db-wal"):
            shutil.copy(left.directory / name, directory)
        left.close()
        shutil.rmtree(left.directory)
        self.store = self._open(directory)
        assert self.store.me == me
        image = self.store.load()
        assert contents(image) == contents(super().read())
        return image

    def lose(self) -> None:
        super().lose()
        self.store.close()
        shutil.rmtree(self.store.directory)
        self.store = self._new()


@pytest.fixture(autouse=True)
def real_disks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        monkeypatch.setattr(RealDisk, "place", Path(place), raising=False)
        monkeypatch.setattr("cluster.sim.node.SimDisk", RealDisk)
        monkeypatch.setattr(database_file, "LOG_BYTES", 0)  # many small disks
        yield


@pytest.mark.parametrize("seed", SEEDS)
def test_a_world_on_real_disks(seed: int) -> None:
    before = RealDisk.made
    outcome = play(make_plan(seed, 3, 5))
    assert outcome.failure is None, outcome.failure and outcome.failure.text
    assert RealDisk.made > before + 3
