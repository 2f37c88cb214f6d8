"""Release keeper: makes the releases of the ledger available at this node.

A task compares the ledger with the blobs on this node's disk. It fetches missing files of proposed, current and kept
releases, tells the cluster which releases this node holds, and deletes files that no release needs any more.
Above: `release_service`.  Below: `release_order`, `blob_fetcher`, blob store.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from qosweb.releases.blob_store import WrongContent
from qosweb.releases.ledger import HoldRelease, RefuseRelease
from qosweb.releases.manifest import BadManifest
from qosweb.server.process.console import log_message
from qosweb.server.releases.peer_blobs import NotObtained
from qosweb.server.releases.release_order import CannotPublish
from qosweb.server.releases.release_tree import ReleaseTree
from qosweb.units import pluralize

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.releases.blob_store import BlobStore
    from qosweb.releases.ledger import ReleaseEntry
    from qosweb.server.releases.blob_fetcher import BlobFetcher
    from qosweb.server.releases.disk_threads import DiskThreads
    from qosweb.server.releases.release_multicast import ReleaseMulticast
    from qosweb.server.releases.release_order import ReleaseOrder
    from qosweb.server.releases.released_site import ReleasedSite

LOOK_EVERY_S = 2.0
COLLECT_EVERY_S = 60.0
RETRY_S = 1.0


class ReleaseKeeper:
    """The files of the releases at one node, and the site that clients get."""

    def __init__(
        self,
        order: ReleaseOrder,
        blobs: BlobStore,
        fetcher: BlobFetcher,
        site: ReleasedSite,
        threads: DiskThreads,
        on_switch: Callable[[], None],
    ) -> None:
        """`on_switch` is called when another release is current here."""
        self._loop = asyncio.get_running_loop()
        self._order = order
        self._ledger = order.ledger
        self._blobs = blobs
        self._fetcher = fetcher
        self._site = site
        self._threads = threads
        self._on_switch = on_switch
        self.multicast: ReleaseMulticast | None = None  # only with `--multicast`
        self.trees: dict[str, ReleaseTree] = {}  # of releases that clients may get
        self.whole: set[str] = set()  # releases of which every file is here
        self.deleting = asyncio.Lock()  # not between the check of a release and its proposal
        self._incomplete: set[str] = set()  # releases about which the operator was told that they are not
        self._news = asyncio.Event()  # the ledger has changed
        self._task: asyncio.Task[None] | None = None
        self._collected_at = 0.0

    def start(self) -> None:
        self._task = self._loop.create_task(self._keep_releases(), name="releases")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def ledger_changed(self) -> None:
        self._news.set()
        self._switch()

    async def _keep_releases(self) -> None:
        while True:
            self._news.clear()
            try:
                await self._look_after()
            except Exception as error:  # a disk that fails must not end the service
                log_message(f"releases: {type(error).__name__}: {error}")
                await asyncio.sleep(RETRY_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._news.wait()

    async def _look_after(self) -> None:
        """Fetch missing files: first of the current release, then of proposed ones, then of those for a rollback."""
        state = self._ledger.state
        for activation in reversed(self._site.in_grace(state.activations)):
            await self.obtain_tree(activation.manifest)
            self._switch()
        if state.activations:
            await self._try_to_obtain_files(state.activations[-1].manifest)
        for proposal in list(state.proposals.values()):
            own = self._order.own_id
            if own in proposal.holders or own in proposal.refusals or self._order.is_cut_off:
                continue
            try:
                await self._obtain_files(proposal.manifest)
            except NotObtained as error:
                log_message(f"release {proposal.manifest[:12]}: {error}; this node tries again")
            except (OSError, BadManifest) as error:
                log_message(f"release {proposal.manifest[:12]} cannot be stored here: {reason_of(error)}")
                await self._tell(RefuseRelease(proposal.manifest, reason_of(error)))
            else:
                await self._tell(HoldRelease(proposal.manifest))
        for activation in reversed(state.activations[:-1]):
            await self._try_to_obtain_files(activation.manifest)
        needed = self._needed()
        self.trees = {digest: tree for digest, tree in self.trees.items() if digest in needed}
        self.whole &= needed
        self._incomplete &= needed
        if self._loop.time() >= self._collected_at + COLLECT_EVERY_S and not self.deleting.locked():
            self._collected_at = self._loop.time()
            await self._collect()

    async def obtain_tree(self, digest: str) -> ReleaseTree:
        """The tree of a release; its manifest is fetched if it is missing here. Raises OSError, BadManifest."""
        tree = self.trees.get(digest)
        if tree is None:
            manifest = await self._fetcher.obtain_manifest(digest)
            tree = self.trees[digest] = ReleaseTree(manifest, self._blobs, self._fetcher.obtain)
        return tree

    async def _try_to_obtain_files(self, digest: str) -> None:
        """Fetch the missing files of a release that is or was current. A file that cannot be fetched is tried again."""
        try:
            await self._obtain_files(digest)
        except (OSError, BadManifest) as error:
            if digest not in self._incomplete:
                self._incomplete.add(digest)
                log_message(f"release {digest[:12]} is not complete here: {reason_of(error)}; this node tries again")

    async def _obtain_files(self, digest: str) -> None:
        """Fetch all missing files of a release. Raises OSError, BadManifest."""
        if digest in self.whole:
            return
        if self.multicast is not None:
            await self.multicast.caught_up()
        tree = await self.obtain_tree(digest)
        await self._fetcher.obtain_all(tree.files.values())
        self.whole.add(digest)
        self._incomplete.discard(digest)

    def _switch(self) -> None:
        """Serve the activations whose manifests are here."""
        activations = self._site.in_grace(self._ledger.state.activations)
        known = [(one, self.trees[one.manifest]) for one in activations if one.manifest in self.trees]
        absent = frozenset(one.number for one in activations if one.manifest not in self.trees)
        if not known or ([one for one, _ in known] == self._site.activations and absent == self._site.absent):
            return
        before, now = self._site.number, known[-1][0]
        self._site.serve(known, absent)
        if now.number == before:
            return
        self._on_switch()
        message = f"; {now.message}" if now.message else ""
        log_message(f"release {now.number} is current: {now.manifest[:12]}, {pluralize(now.files, 'file')}{message}")

    def _needed(self) -> set[str]:
        """The releases that are kept, proposed, or still served here."""
        state = self._ledger.state
        return {*(one.manifest for one in (*state.activations, *self._site.activations)), *state.proposals}

    async def _collect(self) -> None:
        """Delete blobs that no release needs."""

        def collect(manifests: set[str]) -> int:
            if not all(map(self._blobs.has, manifests)):
                return 0  # without all manifests it is unknown which blobs are in use
            used = set(manifests)
            for digest in manifests:
                used.update(one.digest for one in self._blobs.read_manifest(digest).files)
            return self._blobs.collect(used)

        async with self.deleting:
            try:
                count = await self._threads.run(partial(collect, self._needed()))
            except WrongContent:
                self.trees.clear()
                self.whole.clear()
                raise
        if count:
            log_message(f"{count:,} files of old releases were deleted")

    async def _tell(self, entry: ReleaseEntry) -> None:
        try:
            await self._order.submit(entry)
        except CannotPublish:
            self._news.set()  # the release is over, or the primary view is: look again


def reason_of(error: OSError | BadManifest) -> str:
    return str(getattr(error, "strerror", None) or error)
