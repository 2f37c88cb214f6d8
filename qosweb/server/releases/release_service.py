"""Release service of a node: publishes releases, rolls back and lists them, for the admin port.

Above: the admin port and the pipeline.  Below: `release_order` (entries of the ledger), `release_keeper` (the files of
the releases at this node), `qosweb.releases`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from qosweb.releases.blob_store import BlobStore
from qosweb.releases.ledger import ActivateRelease, Activation, KeepRule, ProposeRelease
from qosweb.releases.manifest import BadManifest, digest_of
from qosweb.server.releases.blob_fetcher import BlobFetcher
from qosweb.server.releases.blob_server import BlobServer
from qosweb.server.releases.disk_threads import DiskThreads
from qosweb.server.releases.peer_blobs import BlobKey
from qosweb.server.releases.release_keeper import ReleaseKeeper, reason_of
from qosweb.server.releases.release_multicast import BlobHead
from qosweb.server.releases.release_order import SUBMIT_S, CannotPublish, ReleaseOrder
from qosweb.server.releases.release_tree import BlobFolder
from qosweb.server.releases.released_site import ReleasedSite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cluster import ProcessId
    from qosweb.releases.manifest import Manifest, ManifestFile
    from qosweb.server.releases.blob_server import TakeCapacity
    from qosweb.server.releases.release_multicast import ReleaseMulticast
    from qosweb.server.releases.release_order import ClusterOrder


class MissingFiles(CannotPublish):
    """Files of the release have not been uploaded to this node."""


class ReleaseService:
    """The releases of one node."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        grace_s: float,
        keep_count: int,
        keep_s: float,
        size_max: int,
        is_secure: bool,
        on_switch: Callable[[], None],
        members: Callable[[], Sequence[ProcessId]] | None,
        take_capacity: TakeCapacity,
        wall_s: Callable[[], float],
    ) -> None:
        """`folder` is that of the blobs. `on_switch` is called when another release is current here.

        `members`: those of the last primary view in the cluster's order; None: there is no cluster. `take_capacity`:
        how many of so many bytes may be sent to other nodes now. `wall_s`: the cluster's wall clock. Raises OSError.
        """
        self.blobs = BlobStore(folder)
        self.size_max = size_max
        self.root = BlobFolder(self.blobs)
        self.site = site = ReleasedSite(self.blobs, wall_s, time.monotonic, grace_s=grace_s, is_secure=is_secure)
        self.blob_server = BlobServer(self.blobs, take_capacity)
        self._fetcher = BlobFetcher(self.blobs)
        self._threads = threads = DiskThreads()
        self._order = ReleaseOrder(
            self.blobs, name, members, threads, served=lambda: site.number, on_change=self._ledger_changed
        )
        self.ledger = self._order.ledger
        self._keeper = ReleaseKeeper(self._order, self.blobs, self._fetcher, site, threads, on_switch)
        self.in_thread = threads.run
        self._name = name
        self._wall_s = wall_s
        self._keep = KeepRule(keep_count, int(keep_s), int(grace_s))

    # ---- the node

    def join(self, membership: ClusterOrder, cluster_key: bytes, peers: Callable[[], Sequence[str]]) -> None:
        """This node is a member of a cluster, whose order has the ledger."""
        self._order.join(membership)
        self.blob_server.key = key = BlobKey(cluster_key)
        self._fetcher.join(key, peers)

    def start(self) -> None:
        self._keeper.start()

    def close(self) -> None:
        self._keeper.close()
        self._threads.close()
        self._fetcher.close()

    @property
    def multicast(self) -> ReleaseMulticast | None:
        """Only with `--multicast`."""
        return self._keeper.multicast

    @multicast.setter
    def multicast(self, multicast: ReleaseMulticast | None) -> None:
        self._keeper.multicast = multicast

    @property
    def is_cut_off(self) -> bool:
        return self._order.is_cut_off

    @property
    def is_behind(self) -> bool:
        """Whether this node may lack the current release: it is cut off, or does not have its list of files yet."""
        current = self.ledger.current
        return self.is_cut_off or (current is not None and self.site.number < current.number)

    def _ledger_changed(self) -> None:
        self._keeper.ledger_changed()

    # ---- requests of the admin port

    async def plan(self, manifest: Manifest) -> dict[str, object]:
        """Plan a release: files to upload, differences to the current release, and obstacles to its publication."""
        self._check_size(manifest)
        current = self.ledger.current
        before: dict[str, ManifestFile] = {}
        if current is not None:
            try:
                before = (await self._keeper.obtain_tree(current.manifest)).files
            except (OSError, BadManifest) as error:
                reason = reason_of(error)
                raise CannotPublish(f"node {self._name} does not know the current release: {reason}") from None
        plan = await self.in_thread(lambda: self._plan(manifest, before))
        plan["current"] = None if current is None else current.number
        try:
            await self._order.await_primary("publish")
        except CannotPublish as error:
            plan["obstacle"] = str(error)
        return plan

    def _plan(self, manifest: Manifest, before: dict[str, ManifestFile]) -> dict[str, object]:
        after = manifest.content
        missing = self.blobs.missing(manifest.files)
        parts = {one: self.blobs.received(one) for one in missing}
        size_of = {one.digest: one.size for one in manifest.files}
        obstacle: str | None = None
        try:
            self.blobs.check_space(sum(size_of[one] - parts[one] for one in missing))
        except OSError as error:
            obstacle = self.disk_problem(error)
        return {
            "missing": missing,
            "received": {digest: size for digest, size in parts.items() if size},  # by uploads that did not end
            "added": sum(path not in before for path in after),
            "changed": sum(path in before and before[path].digest != digest for path, digest in after.items()),
            "removed": sum(path not in after for path in before),
            "obstacle": obstacle,
        }

    def disk_problem(self, error: OSError) -> str:
        """The message for an operator who publishes at this node."""
        return f"node {self._name}: {error.strerror or error}; publish at another node, or make room"

    def _check_size(self, manifest: Manifest) -> None:
        if manifest.size > self.size_max:
            raise CannotPublish(
                f"the release has {manifest.size:,} bytes; a site has at most {self.size_max:,} (--site-max-size)"
            )

    async def publish(
        self, manifest_bytes: bytes, manifest: Manifest, message: str, by: str, *, force: bool
    ) -> Activation:
        """Make a release current at all nodes. Its files have been uploaded. Raises CannotPublish."""
        await self._order.await_primary("publish")
        self._check_size(manifest)
        digest = digest_of(manifest_bytes)
        async with self._keeper.deleting:
            missing = await self.in_thread(lambda: self.blobs.missing(manifest.files))
            if missing:
                raise MissingFiles(f"{len(missing):,} files have not been uploaded, such as {missing[0]}")
            await self.in_thread(lambda: self.blobs.put(manifest_bytes))
            self._keeper.whole.add(digest)
            await self._keeper.obtain_tree(digest)
            await self._multicast_new(digest, len(manifest_bytes), manifest)
            current = self.ledger.current
            before = 0 if current is None else current.number
            await self._order.submit(ProposeRelease(digest, len(manifest.files), manifest.size, int(self._wall_s())))
        made = await self._order.await_holders(digest, before, force=force)
        if made is not None:
            return made
        return await self._activate(
            ActivateRelease(digest, message, by, int(self._wall_s()), self._keep, is_forced=force)
        )

    async def _multicast_new(self, digest: str, manifest_len: int, manifest: Manifest) -> None:
        """Send the files that the current release does not have to all nodes, if multicast is configured."""
        if self.multicast is None:
            return
        current = self.ledger.current
        old = self._keeper.trees.get(current.manifest) if current is not None else None
        known = {one.digest for one in old.files.values()} if old is not None else set()
        new = {one.digest: one for one in manifest.files if one.digest not in known}
        heads = [BlobHead(one.digest, one.size, one.mtime_s) for one in new.values()]
        await self.multicast.send([BlobHead(digest, manifest_len, None), *heads])

    async def rollback(self, release: str, by: str) -> Activation:
        """Make an earlier release current again: by number or digest; "" is the one before. Raises CannotPublish."""
        await self._order.await_primary("roll back")
        kept = self.ledger.state.activations
        if not kept:
            raise CannotPublish("no release has been published")
        chosen: Activation | None
        if release:
            chosen = next((one for one in reversed(kept) if release in (str(one.number), one.manifest)), None)
            if chosen is None and len(release) >= 6:
                chosen = next((one for one in reversed(kept) if one.manifest.startswith(release)), None)
        else:
            chosen = next((one for one in reversed(kept) if one.manifest != kept[-1].manifest), None)
        if chosen is None:
            numbers = ", ".join(str(one.number) for one in kept)
            what = f"there is no release {release}" if release else "there is no earlier release"
            raise CannotPublish(f"{what}; kept releases: {numbers}")
        message = f"rollback to release {chosen.number}" + (f": {chosen.message}" if chosen.message else "")
        return await self._activate(ActivateRelease(chosen.manifest, message, by, int(self._wall_s()), self._keep))

    async def _activate(self, entry: ActivateRelease) -> Activation:
        """Switch all nodes. Returns when this node serves the release, or after SUBMIT_S. Raises CannotPublish."""
        made = await self._order.submit(entry)
        assert made is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(SUBMIT_S):
                while self.site.number < made.number:
                    switched = asyncio.Event()
                    self.site.wait(switched.set)
                    await switched.wait()
        return made

    def listed(self) -> dict[str, object]:
        """The releases as JSON, newest first."""
        state = self.ledger.state
        return {
            "current": None if self.ledger.current is None else self.ledger.current.number,
            "served": self.site.number,
            "nodes": [one.name for one in self._order.members()],
            "multicast": None if self.multicast is None else self.multicast.described(),
            "releases": [
                {
                    "number": one.number,
                    "release": one.manifest,
                    "message": one.message,
                    "by": one.by,
                    "at": one.at_s,
                    "files": one.files,
                    "bytes": one.size,
                    "complete": one.manifest in self._keeper.whole,
                }
                for one in reversed(state.activations)
            ],
            "proposed": [
                {
                    "release": one.manifest,
                    "files": one.files,
                    "bytes": one.size,
                    "at": one.at_s,
                    "held_by": [member.name for member in self.ledger.holders(one.manifest)],
                    "refused_by": self.ledger.refusals(one.manifest),
                }
                for one in state.proposals.values()
            ],
        }
