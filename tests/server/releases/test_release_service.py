"""The release service of one node. The test plays the order of its cluster."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from cluster import ProcessId, View
from cluster.names import ViewId
from qosweb.releases import blob_store
from qosweb.releases.ledger import (
    PROPOSALS_MAX,
    ActivateRelease,
    HoldRelease,
    KeepRule,
    ProposeRelease,
    encode_entry,
)
from qosweb.releases.manifest import ManifestFile, digest_of, encode_manifest, make_manifest
from qosweb.server.releases import blob_fetcher, release_keeper
from qosweb.server.releases.peer_blobs import NotObtained
from qosweb.server.releases.release_order import CannotPublish
from qosweb.server.releases.release_service import ReleaseService
from qosweb.server.releases.release_tree import SiteView
from qosweb.server.releases.released_site import fields_of
from qosweb.server.request.answers import Answer
from qosweb.server.request.release_stages import choose_release

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
            on_switch=lambda: None, members=lambda: MEMBERS, take_capacity=_nothing, wall_s=time.time,
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
    monkeypatch.setattr(release_keeper, "COLLECT_EVERY_S", 0.0)
    monkeypatch.setattr(release_keeper, "LOOK_EVERY_S", 0.01)


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


def test_two_operators_publish_the_same_files_at_once(tmp_path: Path) -> None:
    """The second one gets the release of the first, not an error."""

    async def scenario(world: World) -> None:
        manifest, _ = world.store("x")
        name = world.propose(manifest)
        publishing = asyncio.create_task(
            world.service.publish(encode_manifest(manifest), manifest, "second", "me", force=False)
        )
        await until(lambda: world.service.ledger.holders(name) == [ME])  # its proposal replaced the first one
        world.order(HoldRelease(name))
        world.order(ActivateRelease(name, "first", "", world.at_s, KEEP))
        made = await publishing
        assert (made.number, made.message) == (1, "first")

    run(tmp_path, scenario)


def test_a_proposal_that_others_pushed_out(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        manifest, _ = world.store("x")
        publishing = asyncio.create_task(
            world.service.publish(encode_manifest(manifest), manifest, "", "", force=False)
        )
        await until(lambda: bool(world.service.ledger.state.proposals))
        for number in range(PROPOSALS_MAX):
            world.order(ProposeRelease(f"{number:064x}", 1, 1, 0))
        with pytest.raises(CannotPublish, match="too many other releases"):
            await publishing

    run(tmp_path, scenario)


def test_a_node_without_the_list_of_files_of_the_current_release_is_behind(tmp_path: Path) -> None:
    """So a client that has seen the current release gets no older one here, even after it has waited."""

    async def scenario(world: World) -> None:
        await world.publish_elsewhere("x")
        service = world.service
        await until(lambda: service.site.number == 1)
        absent = "a" * 64
        world.order(ProposeRelease(absent, 1, 1, 0))
        service.ledger.apply(ME, encode_entry(HoldRelease(absent)))
        world.order(ActivateRelease(absent, "", "", world.at_s, KeepRule(5, 5000)))
        assert service.site.number == 1
        head = Head({"Cookie": "qosweb-release=2", "Sec-Fetch-Mode": "navigate"})
        exchange = SimpleNamespace(head=head, key="/", has_waited_for_release=True, release=None)
        answer = choose_release(exchange, SimpleNamespace(releases=service))  # type: ignore[arg-type]
        assert isinstance(answer, Answer)
        assert answer.status == 503
        head.fields["Cookie"] = "qosweb-release=1"
        assert choose_release(exchange, SimpleNamespace(releases=service)) is None  # type: ignore[arg-type]
        assert exchange.release.number == 1

    run(tmp_path, scenario)


class Head:
    """The header fields of a request."""

    bits = -1

    def __init__(self, fields: dict[str, str]) -> None:
        self.fields = fields

    def value(self, name: str) -> str | None:
        return self.fields.get(name)


def test_clients_of_a_node_that_was_away_keep_the_release_of_their_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release was replaced, and is no longer kept. The node served it until now, so its files stay for a while."""

    async def scenario(world: World) -> None:
        service, order = world.service, world.service._order
        service.site._grace_s = 600.0
        _, digest = await world.publish_elsewhere("x")
        await until(lambda: service.site.number == 1)
        page = Head({"Cookie": "qosweb-release=1", "Sec-Fetch-Mode": "no-cors"})
        for text in "yz":  # while it was away, long ago
            other, _ = world.store(text)
            order._react, react = lambda: None, order._react  # type: ignore[method-assign]
            name = world.propose(other)
            service.ledger.apply(ME, encode_entry(HoldRelease(name)))
            world.at_s += 10
            world.order(ActivateRelease(name, "", "", world.at_s, KEEP))
            order._react = react  # type: ignore[method-assign]
        assert [one.number for one in service.ledger.state.activations] == [2, 3]
        collect_at_once(monkeypatch)
        order._changed()
        await until(lambda: service.site.number == 3)
        end = world.looks + 20
        await until(lambda: world.looks >= end)
        chosen = service.site.choose(fields_of(page), "/index.html")  # type: ignore[arg-type]
        assert isinstance(chosen, SiteView)
        assert chosen.number == 1
        assert service.blobs.has(digest)
        service.site._grace_s = -1.0
        await until(lambda: not service.blobs.has(digest))

    run(tmp_path, scenario)


def test_a_damaged_list_of_files_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        manifest, _ = world.store("x")
        data = encode_manifest(manifest)
        path = world.service.blobs.path_of(digest_of(data))
        path.chmod(0o644)
        path.write_bytes(b"{" + data[1:].replace(b"index", b"other"))

        def obtain(blobs: BlobStore, *_rest: object, **_more: object) -> None:
            blobs.put(data)

        monkeypatch.setattr(blob_fetcher, "obtain_blob", obtain)
        world.propose(manifest)
        await until(lambda: ME in world.service.ledger.holders(digest_of(data)))
        world.order(ActivateRelease(digest_of(data), "", "", world.at_s, KEEP))
        await until(lambda: world.service.site.number == 1)
        assert list(world.service.site.current.tree.files) == ["index.html"]

    run(tmp_path, scenario)


def test_a_single_node_stores_its_ledger_in_order(tmp_path: Path) -> None:
    """Two operators publish at once. The file must not keep the older state."""

    async def play() -> None:
        service = ReleaseService(
            tmp_path, "n1", grace_s=0.0, keep_count=1, keep_s=0.0, size_max=1 << 30, is_secure=False,
            on_switch=lambda: None, members=None, take_capacity=_nothing, wall_s=time.time,
        )  # fmt: skip
        write, states, is_second_stored = service.blobs.write_ledger, list[bytes](), threading.Event()

        def write_first_late(state: bytes) -> None:
            states.append(state)
            if len(states) == 1:
                is_second_stored.wait(0.2)  # not longer: the second one has to wait
            write(state)
            if len(states) == 2:
                is_second_stored.set()

        service.blobs.write_ledger = write_first_late  # type: ignore[method-assign]
        await asyncio.gather(*(service._order.submit(ProposeRelease(one * 64, 1, 1, 0)) for one in "ab"))
        assert service.blobs.read_ledger() == service.ledger.snapshot()
        service.close()

    asyncio.run(play())
