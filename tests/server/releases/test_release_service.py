"""The release service of one node. The test plays the order of its cluster."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from cluster import ProcessId, View
from cluster.names import ViewId
from qosweb.releases import blob_store
from qosweb.releases.ledger import ActivateRelease, HoldRelease, KeepRule, ProposeRelease, encode_entry
from qosweb.releases.manifest import ManifestFile, digest_of, encode_manifest, make_manifest
from qosweb.server.releases import blob_fetcher, release_service
from qosweb.server.releases.peer_blobs import NotObtained
from qosweb.server.releases.release_service import CannotPublish, ReleaseService

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from qosweb.releases.blob_store import BlobStore
    from qosweb.releases.ledger import Activation, ReleaseEntry
    from qosweb.releases.manifest import Manifest
    from qosweb.server.releases.release_multicast import BlobHead

ME, OTHER = ProcessId("n1"), ProcessId("n2")
MEMBERS = (ME, OTHER)
KEEP = KeepRule(count=1, age_s=0)


class World:
    """The service of n1, and the entries that n2 has ordered."""

    me = ME
    primary = View(ViewId(1, "x"), MEMBERS, (1, 1))

    def __init__(self, folder: Path) -> None:
        self.asked_peers = 0
        self.at_s = int(time.time()) - 1000  # of the last activation
        self.service = ReleaseService(
            folder, "n1", grace_s=0.0, keep_count=1, keep_s=0.0, size_max=1 << 30, is_secure=False,
            on_switch=lambda: None, members=lambda: MEMBERS, take_capacity=_nothing,
        )  # fmt: skip
        self.looks = 0  # of the service at its releases
        self._in_grace = self.service.site.in_grace
        self.service.site.in_grace = self._look  # type: ignore[method-assign]
        self.service.join(self, b"k" * 32, self._peers)
        self.service.start()

    def _look(self, activations: list[Activation]) -> list[Activation]:
        self.looks += 1
        return self._in_grace(activations)

    def _peers(self) -> tuple[str, ...]:
        self.asked_peers += 1
        return ()

    async def submit_release(self, body: bytes) -> object:
        return self.service.ledger.apply(ME, body)

    def order(self, entry: ReleaseEntry) -> None:
        self.service.ledger.apply(OTHER, encode_entry(entry))

    def store(self, text: str) -> tuple[Manifest, str]:
        """Put a release of one file into the store of n1. Returns its manifest and the digest of the file."""
        blobs = self.service.blobs
        digest = blobs.put(text.encode())
        manifest = make_manifest([ManifestFile("index.html", digest, len(text), 0)])
        blobs.put(encode_manifest(manifest))
        return manifest, digest

    def propose(self, manifest: Manifest) -> str:
        name = digest_of(encode_manifest(manifest))
        self.order(ProposeRelease(name, 1, manifest.size, int(time.time())))
        return name

    async def publish_elsewhere(self, text: str) -> tuple[Manifest, str]:
        manifest, digest = self.store(text)
        name = self.propose(manifest)
        await until(lambda: ME in self.service.ledger.holders(name))
        self.at_s += 10
        self.order(ActivateRelease(name, "", "", self.at_s, KEEP))
        return manifest, digest

    async def publish_twice_more(self) -> None:
        """The release before is no longer kept."""
        for text in "yz":
            await self.publish_elsewhere(text)


def _nothing(_most: int, *, is_urgent: bool = False) -> int:  # noqa: ARG001
    return 0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - on files, and on the state of the service
            await asyncio.sleep(0.005)


def run(folder: Path, scenario: Callable[[World], Coroutine[None, None, None]]) -> None:
    async def play() -> None:
        world = World(folder)
        try:
            await scenario(world)
        finally:
            world.service.close()

    asyncio.run(play())


def collect_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_store, "UNUSED_S", -10.0)
    monkeypatch.setattr(release_service, "COLLECT_EVERY_S", 0.0)
    monkeypatch.setattr(release_service, "LOOK_EVERY_S", 0.01)


def test_a_node_that_has_deleted_a_release_does_not_hold_it_when_it_is_published_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(world: World) -> None:
        manifest, digest = await world.publish_elsewhere("x")
        await world.publish_twice_more()
        collect_at_once(monkeypatch)
        await until(lambda: not world.service.blobs.has(digest))
        name = world.propose(manifest)
        await until(lambda: world.asked_peers > 0 or ME in world.service.ledger.holders(name))
        assert ME not in world.service.ledger.holders(name)

    run(tmp_path, scenario)


def test_a_node_that_does_not_have_the_current_release_yet_fetches_its_list_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was away. Nodes with the release may be away now."""
    data = encode_manifest(make_manifest([ManifestFile("a", "0" * 64, 1, 0)]))
    has_peer = False

    def obtain(blobs: BlobStore, *_rest: object, **_more: object) -> None:
        if not has_peer:
            raise NotObtained("no node has it")
        blobs.put(data)

    monkeypatch.setattr(blob_fetcher, "obtain_blob", obtain)

    async def scenario(world: World) -> None:
        nonlocal has_peer
        name = digest_of(data)
        world.order(ProposeRelease(name, 1, 1, 0))
        world.service.ledger.apply(ME, encode_entry(HoldRelease(name)))  # before it lost its disk
        world.order(ActivateRelease(name, "", "", world.at_s, KEEP))
        new = make_manifest([ManifestFile("b", "1" * 64, 1, 0)])
        with pytest.raises(CannotPublish, match="node n1 does not know the current release: no node has it"):
            await world.service.plan(new)
        has_peer = True
        plan = await world.service.plan(new)
        assert (plan["added"], plan["removed"], plan["current"]) == (1, 1, 1)

    run(tmp_path, scenario)


def test_files_of_a_release_that_is_being_published_are_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(world: World) -> None:
        service = world.service

        class Multicast:
            async def caught_up(self) -> None:
                pass

            async def send(self, _heads: list[BlobHead]) -> None:
                collect_at_once(monkeypatch)
                end = world.looks + 20
                await until(lambda: world.looks >= end or not service.blobs.has(digest))
                monkeypatch.undo()
                asyncio.get_running_loop().call_later(0.01, world.order, HoldRelease(name))

        manifest, digest = await world.publish_elsewhere("x")
        await world.publish_twice_more()
        name = digest_of(encode_manifest(manifest))
        service.multicast = Multicast()  # type: ignore[assignment]
        made = await service.publish(encode_manifest(manifest), manifest, "again", "me", force=False)
        assert made.number == 4
        assert service.blobs.has(digest)

    run(tmp_path, scenario)
