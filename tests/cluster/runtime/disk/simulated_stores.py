"""Simulated nodes on real disks: every record goes to a store and to the image that the store must equal."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from cluster.durable import Image, Record, founding_image
from cluster.runtime.disk.store import Purpose, Store
from cluster.settings import Settings
from cluster.sim.disk import SimDisk
from cluster.sim.world import World
from cluster.stack import Process
from tests.cluster.runtime.disk.images import contents, copy

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "shop"


class StoreDisk(SimDisk):
    """A disk backed by a store. Reading it simulates a restart after kill -9: from the files as they are."""

    def __init__(self, place: Path, name: str, *, founds: bool) -> None:
        super().__init__()
        self.place = place
        self.name = name
        self.cluster_id = CLUSTER
        self.lives = 0
        self.store: Store | None = self._open(Purpose.FOUNDING if founds else Purpose.JOINING)
        self.me = self.store.me if self.store else None
        self.image = founding_image(self.store.me) if founds and self.store else Image()

    @property
    def directory(self) -> Path:
        return self.place / f"{self.name}{self.lives}"

    def _open(self, purpose: Purpose) -> Store:
        return Store.open(self.directory, create_for=purpose, name=self.name, cluster_id=self.cluster_id)

    def write(self, record: Record) -> None:
        assert self.store is not None
        self.store.write([record])
        self.image.apply(record)

    def kill(self) -> None:
        """Copy the files as a kill -9 leaves them to another directory, whose lock is free."""
        if self.store is None:
            return
        left, store = self.directory, self.store
        self.lives += 1
        self.directory.mkdir()
        for name in ("group.db", "group.db-wal"):
            shutil.copy(left / name, self.directory)
        store.close()
        self.store = None

    def read(self) -> Image:
        self.kill()
        self.store = self._open(Purpose.JOINING)
        assert self.store.me == self.me
        found = self.store.load()
        assert contents(found) == contents(self.image)
        return copy(found)

    def reset(self, cluster_id: str) -> None:
        """An operator changed the files: take their content as it is."""
        self.cluster_id = cluster_id
        self.store = self._open(Purpose.JOINING)
        self.image = copy(self.store.load())


def world_on_disks(place: Path, names: str, seed: int = 0, settings: Settings | None = None) -> World:
    world = World(Process, seed=seed, settings=settings or Settings(snapshot_every=10))
    for name in names:
        first = name == names[0]
        world.add(name, contacts=() if first else (names[0],), founds=first)
        node = world.nodes[name]
        disk = StoreDisk(place, name, founds=first)
        assert disk.me is not None
        node.disk, node.pid = disk, disk.me
    for name in names:
        world.nodes[name].start()
    return world.run_until(lambda: world.has_primary(names), within=30.0, what=f"a primary view of {names}")


def disk(world: World, name: str) -> StoreDisk:
    found = world.nodes[name].disk
    assert isinstance(found, StoreDisk)
    return found
