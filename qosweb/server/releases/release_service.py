"""Release service of a node: publishes releases through the cluster's order, fetches their files, and serves them.

A keeper task compares the ledger with the blobs on this node's disk. It fetches what is missing of proposed, current
and kept releases, tells the cluster which releases this node holds, and deletes what no release needs any more. Work on
the disk and between nodes is done in threads.
A node without a cluster applies the entries itself and stores the ledger in a file.
Above: the admin port and the pipeline.  Below: `qosweb.releases`, `peer_blobs`, the cluster's order.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from cluster import Full, InDoubt, NotDelivered, ProcessId
from qosweb.releases.blob_store import BlobStore, WrongContent
from qosweb.releases.ledger import (
    ActivateRelease,
    Activation,
    HoldRelease,
    KeepRule,
    ProposeRelease,
    Refused,
    RefuseRelease,
    ReleaseLedger,
    encode_entry,
    say_refusals,
)
from qosweb.releases.manifest import BadManifest, digest_of
from qosweb.server.process.console import log_message
from qosweb.server.releases.blob_fetcher import BlobFetcher
from qosweb.server.releases.blob_server import BlobServer
from qosweb.server.releases.peer_blobs import BlobKey, NotObtained
from qosweb.server.releases.release_multicast import BlobHead
from qosweb.server.releases.release_tree import BlobFolder, ReleaseTree
from qosweb.server.releases.released_site import ReleasedSite
from qosweb.units import pluralize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cluster import View
    from qosweb.releases.ledger import ReleaseEntry
    from qosweb.releases.manifest import Manifest, ManifestFile
    from qosweb.server.releases.blob_server import TakeCapacity
    from qosweb.server.releases.release_multicast import ReleaseMulticast

SUBMIT_S = 10.0  # how long an entry may take
PREPARE_S = 600.0  # how long the nodes may take to fetch a release
BETWEEN_VIEWS_S = 5.0
STRAGGLER_S = 3.0  # how long a release that a majority holds waits for the other nodes
LOOK_EVERY_S = 2.0
COLLECT_EVERY_S = 60.0
DISK_THREADS = 4  # for uploads and manifests; fetches have their own
RETRY_S = 1.0

Result = TypeVar("Result")


class ReleaseOrder(Protocol):
    """The part of the node's cluster membership that the service uses."""

    @property
    def primary(self) -> View | None: ...
    @property
    def me(self) -> ProcessId: ...
    async def submit_release(self, body: bytes) -> object:
        """Apply an entry of the ledger at all nodes. Returns the result at this one."""


class CannotPublish(Exception):
    """The release did not become current; the text says why."""


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
        self._loop = asyncio.get_running_loop()
        self.blobs = BlobStore(folder)
        self.size_max = size_max
        self.root = BlobFolder(self.blobs)
        self.site = ReleasedSite(self.blobs, wall_s, time.monotonic, grace_s=grace_s, is_secure=is_secure)
        self._wall_s = wall_s
        self._me = ProcessId(name)
        self._members = members or (lambda: (self._me,))
        self.ledger = ReleaseLedger(self._members, self._changed)
        if members is None:
            self.ledger.restore(self.blobs.read_ledger())
        self.blob_server = BlobServer(self.blobs, take_capacity)
        self._fetcher = BlobFetcher(self.blobs)
        self._name = name
        self._keep = KeepRule(keep_count, int(keep_s), int(grace_s))
        self._on_switch = on_switch
        self._membership: ReleaseOrder | None = None
        self.multicast: ReleaseMulticast | None = None  # only with `--multicast`
        self._threads = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="release")
        self._trees: dict[str, ReleaseTree] = {}  # of releases that clients may get
        self._whole: set[str] = set()  # releases of which every file is here
        self._deleting = asyncio.Lock()  # not between the check of a release and its proposal
        self._writing = asyncio.Lock()  # the ledger of a node without a cluster
        self._incomplete: set[str] = set()  # releases about which the operator was told that they are not
        self._news = asyncio.Event()  # the ledger has changed: for the keeper
        self._waiters: list[asyncio.Event] = []  # the same, for operations under way
        self._keeper: asyncio.Task[None] | None = None
        self._collected_at = 0.0

    # ---- the node

    def join(self, membership: ReleaseOrder, cluster_key: bytes, peers: Callable[[], Sequence[str]]) -> None:
        """This node is a member of a cluster, whose order has the ledger."""
        self._membership = membership
        self.blob_server.key = key = BlobKey(cluster_key)
        self._fetcher.join(key, peers)

    def start(self) -> None:
        self._keeper = self._loop.create_task(self._keep_releases(), name="releases")

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._fetcher.close()

    @property
    def is_cut_off(self) -> bool:
        return self._membership is not None and self._membership.primary is None

    @property
    def is_behind(self) -> bool:
        """Whether this node may lack the current release: it is cut off, or does not have its list of files yet."""
        current = self.ledger.current
        return self.is_cut_off or (current is not None and self.site.number < current.number)

    @property
    def _own_id(self) -> str:
        return str(self._me if self._membership is None else self._membership.me)

    def _changed(self) -> None:
        """The ledger has changed. It calls this while the order is applied: reactions follow in a later turn."""
        self._loop.call_soon(self._react)

    def _react(self) -> None:
        self._news.set()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.set()
        self._switch()

    # ---- requests of the admin port

    async def plan(self, manifest: Manifest) -> dict[str, object]:
        """Plan a release: files to upload, differences to the current release, and obstacles to its publication."""
        self._check_size(manifest)
        current = self.ledger.current
        before: dict[str, ManifestFile] = {}
        if current is not None:
            try:
                before = (await self._obtain_tree(current.manifest)).files
            except (OSError, BadManifest) as error:
                raise CannotPublish(f"node {self._name} does not know the current release: {_reason(error)}") from None
        plan = await self.in_thread(lambda: self._plan(manifest, before))
        plan["current"] = None if current is None else current.number
        try:
            await self._await_primary("publish")
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

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        return await self._loop.run_in_executor(self._threads, work)

    async def publish(
        self, manifest_bytes: bytes, manifest: Manifest, message: str, by: str, *, force: bool
    ) -> Activation:
        """Make a release current at all nodes. Its files have been uploaded. Raises CannotPublish."""
        await self._await_primary("publish")
        self._check_size(manifest)
        digest = digest_of(manifest_bytes)
        async with self._deleting:
            missing = await self.in_thread(lambda: self.blobs.missing(manifest.files))
            if missing:
                raise MissingFiles(f"{len(missing):,} files have not been uploaded, such as {missing[0]}")
            await self.in_thread(lambda: self.blobs.put(manifest_bytes))
            self._whole.add(digest)
            await self._obtain_tree(digest)
            await self._multicast_new(digest, len(manifest_bytes), manifest)
            current = self.ledger.current
            before = 0 if current is None else current.number
            await self._submit(ProposeRelease(digest, len(manifest.files), manifest.size, int(self._wall_s())))
        made = await self._await_holders(digest, before, force=force)
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
        old = self._trees.get(current.manifest) if current is not None else None
        known = {one.digest for one in old.files.values()} if old is not None else set()
        new = {one.digest: one for one in manifest.files if one.digest not in known}
        heads = [BlobHead(one.digest, one.size, one.mtime_s) for one in new.values()]
        await self.multicast.send([BlobHead(digest, manifest_len, None), *heads])

    async def rollback(self, release: str, by: str) -> Activation:
        """Make an earlier release current again: by number or digest; "" is the one before. Raises CannotPublish."""
        await self._await_primary("roll back")
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
        made = await self._submit(entry)
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
            "nodes": [one.name for one in self._members()],
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
                    "complete": one.manifest in self._whole,
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

    # ---- the order

    async def _await_primary(self, what: str) -> None:
        """Wait for a primary view: between two of them there is a moment without any. Raises CannotPublish."""
        deadline = self._loop.time() + BETWEEN_VIEWS_S
        while self.is_cut_off:
            if self._loop.time() >= deadline:
                raise CannotPublish(
                    f"this node is not in a primary view of its cluster, so it cannot {what} now; it serves release "
                    f"{self.site.number} until it is in one again"
                )
            await self._pause(self._news_of_ledger())

    def _news_of_ledger(self) -> asyncio.Event:
        """An event that the next change of the ledger sets."""
        event = asyncio.Event()
        self._waiters.append(event)
        return event

    async def _pause(self, changed: asyncio.Event) -> None:
        """Wait for a change of the ledger, or a moment: nothing tells of a change of the view."""
        with suppress(TimeoutError):
            async with asyncio.timeout(0.25):
                await changed.wait()
        if not changed.is_set():
            self._waiters.remove(changed)

    async def _submit(self, entry: ReleaseEntry) -> Activation | None:
        body = encode_entry(entry)
        if self._membership is None:
            async with self._writing:
                result: object = self.ledger.apply(self._me, body)
                state = self.ledger.snapshot()
                await self.in_thread(lambda: self.blobs.write_ledger(state))
        else:
            try:
                async with asyncio.timeout(SUBMIT_S):
                    result = await self._membership.submit_release(body)
            except (Full, NotDelivered, InDoubt) as error:
                raise CannotPublish(f"the cluster did not take the entry: {error}") from None
            except TimeoutError:
                raise CannotPublish(
                    f"the cluster did not take the entry within {SUBMIT_S:g} s; it may still take effect"
                ) from None
        if isinstance(result, Refused):
            raise CannotPublish(str(result))
        return result if isinstance(result, Activation) else None

    async def _await_holders(self, digest: str, before: int, *, force: bool) -> Activation | None:
        """Wait until all nodes hold a release, or a majority does and the others are slow. Raises CannotPublish.

        Returns its activation after `before` if another operator published it meanwhile.
        """
        deadline = self._loop.time() + PREPARE_S
        majority_at: float | None = None
        while True:
            changed = self._news_of_ledger()
            refusals = self.ledger.refusals(digest)
            held, members = len(self.ledger.holders(digest)), len(self._members())
            if digest not in self.ledger.state.proposals:
                made = self.ledger.activation_of(digest)
                if made is not None and made.number > before:
                    return made
                raise CannotPublish("too many other releases were proposed meanwhile; publish again")
            if refusals and not force:
                raise CannotPublish(f"{say_refusals(refusals)}; --force publishes with a majority")
            if held == members or (force and self.ledger.is_held_by_majority(digest)):
                return None
            now = self._loop.time()
            if self.ledger.is_held_by_majority(digest):
                majority_at = majority_at or now
                if now >= majority_at + STRAGGLER_S:
                    return None
            if now >= deadline:
                raise CannotPublish(f"{held} of {members} nodes have the release; a majority is needed")
            await self._await_primary("publish")
            await self._pause(changed)

    # ---- the keeper

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
        state = self.ledger.state
        for activation in reversed(self.site.in_grace(state.activations)):
            await self._obtain_tree(activation.manifest)
            self._switch()
        if state.activations:
            await self._try_to_obtain_files(state.activations[-1].manifest)
        for proposal in list(state.proposals.values()):
            own = self._own_id
            if own in proposal.holders or own in proposal.refusals or self.is_cut_off:
                continue
            try:
                await self._obtain_files(proposal.manifest)
            except NotObtained as error:
                log_message(f"release {proposal.manifest[:12]}: {error}; this node tries again")
            except (OSError, BadManifest) as error:
                log_message(f"release {proposal.manifest[:12]} cannot be stored here: {_reason(error)}")
                await self._tell(RefuseRelease(proposal.manifest, _reason(error)))
            else:
                await self._tell(HoldRelease(proposal.manifest))
        for activation in reversed(state.activations[:-1]):
            await self._try_to_obtain_files(activation.manifest)
        needed = self._needed()
        self._trees = {digest: tree for digest, tree in self._trees.items() if digest in needed}
        self._whole &= needed
        self._incomplete &= needed
        if self._loop.time() >= self._collected_at + COLLECT_EVERY_S and not self._deleting.locked():
            self._collected_at = self._loop.time()
            await self._collect()

    async def _tell(self, entry: ReleaseEntry) -> None:
        try:
            await self._submit(entry)
        except CannotPublish:
            self._news.set()  # the release is over, or the primary view is: look again

    async def _obtain_tree(self, digest: str) -> ReleaseTree:
        """The tree of a release; its manifest is fetched if it is missing here. Raises OSError, BadManifest."""
        tree = self._trees.get(digest)
        if tree is None:
            manifest = await self._fetcher.obtain_manifest(digest)
            tree = self._trees[digest] = ReleaseTree(manifest, self.blobs, self._fetcher.obtain)
        return tree

    async def _try_to_obtain_files(self, digest: str) -> None:
        """Fetch the missing files of a release that is or was current. A file that cannot be fetched is tried again."""
        try:
            await self._obtain_files(digest)
        except (OSError, BadManifest) as error:
            if digest not in self._incomplete:
                self._incomplete.add(digest)
                log_message(f"release {digest[:12]} is not complete here: {_reason(error)}; this node tries again")

    async def _obtain_files(self, digest: str) -> None:
        """Fetch all missing files of a release. Raises OSError, BadManifest."""
        if digest in self._whole:
            return
        if self.multicast is not None:
            await self.multicast.caught_up()
        tree = await self._obtain_tree(digest)
        await self._fetcher.obtain_all(tree.files.values())
        self._whole.add(digest)
        self._incomplete.discard(digest)

    def _switch(self) -> None:
        """Serve the activations whose manifests are here."""
        activations = self.site.in_grace(self.ledger.state.activations)
        known = [(one, self._trees[one.manifest]) for one in activations if one.manifest in self._trees]
        absent = frozenset(one.number for one in activations if one.manifest not in self._trees)
        if not known or ([one for one, _ in known] == self.site.activations and absent == self.site.absent):
            return
        before, now = self.site.number, known[-1][0]
        self.site.serve(known, absent)
        if now.number == before:
            return
        self._on_switch()
        message = f"; {now.message}" if now.message else ""
        log_message(f"release {now.number} is current: {now.manifest[:12]}, {pluralize(now.files, 'file')}{message}")

    def _needed(self) -> set[str]:
        """The releases that are kept, proposed, or still served here."""
        state = self.ledger.state
        return {*(one.manifest for one in (*state.activations, *self.site.activations)), *state.proposals}

    async def _collect(self) -> None:
        """Delete blobs that no release needs."""

        def collect(manifests: set[str]) -> int:
            if not all(map(self.blobs.has, manifests)):
                return 0  # without all manifests it is unknown which blobs are in use
            used = set(manifests)
            for digest in manifests:
                used.update(one.digest for one in self.blobs.read_manifest(digest).files)
            return self.blobs.collect(used)

        async with self._deleting:
            try:
                count = await self.in_thread(partial(collect, self._needed()))
            except WrongContent:
                self._trees.clear()
                self._whole.clear()
                raise
        if count:
            log_message(f"{count:,} files of old releases were deleted")


def _reason(error: OSError | BadManifest) -> str:
    return str(getattr(error, "strerror", None) or error)
