"""Distribution of release files to all nodes at once, by the cluster's multicast transport (`--multicast`).

The node that publishes sends one message: the files that the current release does not have, and the manifest. It does
so before it proposes the release, and the cluster's order has the acceptance of the message before the proposal. So a
node that learns of the proposal knows whether files are still under way to it. What it misses, it fetches as usual.

    length of the list (4) | list of [digest, size, modification time] (MessagePack) | content of the files

Above: `release_service`.  Below: `cluster.Bulk`, blob store.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from cluster import Bulk, BulkClosed, BulkMessage
from cluster.bulk.effects import Outcome
from cluster.runtime.net.transport import CannotListen
from qosweb.releases.manifest import is_digest
from qosweb.server.process.console import log_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from cluster import MulticastGroup, SendProgress
    from qosweb.releases.blob_store import BlobStore
    from qosweb.server.cluster.membership import ClusterMembership

PIECE = 1 << 20
LIST_LEN_MAX = 32 << 20
ATTEMPTS = 3  # a message is rejected when the coordinator of the transport changes
STALL_S = 5.0  # without progress the files are left to be fetched
WAIT_S = 10.0  # the longest that a node waits for files under way that do not come
SLOWEST_BPS = 1e6  # a node that cannot keep up with this rate fetches the files instead
FASTEST_BPS = 30e6  # leaves processor time for requests
LOOK_EVERY_S = 0.1
RESTART_S = 10.0
_LENGTH = struct.Struct(">I")


class BlobHead(msgspec.Struct, frozen=True, array_like=True):
    """One file of a message."""

    digest: str
    size: int
    mtime_s: int | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[BlobHead]).decode


class ReleaseMulticast:
    """Sends and receives release files at one node. Starts again if its transport fails, by a full disk for example."""

    def __init__(
        self, membership: ClusterMembership, group: MulticastGroup, blobs: BlobStore, rate_bps: float | None
    ) -> None:
        """`rate_bps`: bytes per second, at most; None: as fast as the network allows."""
        self._membership = membership
        self._group = group
        self._folder = blobs.folder / "multicast"
        self._blobs = blobs
        self._rate_bps = min(FASTEST_BPS, rate_bps or FASTEST_BPS)
        self._bulk: Bulk | None = None
        self._unpacking = 0  # delivered messages whose files are not stored yet
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="release multicast")
        self.sent_messages = 0
        self.received_files = 0

    @property
    def is_ready(self) -> bool:
        return self._bulk is not None and len(self._bulk.members) > 1

    def described(self) -> dict[str, object]:
        """The state as JSON."""
        bulk = self._bulk
        return {
            "group": str(self._group),
            "members": sorted(one.name for one in bulk.members) if bulk is not None else [],
            "receiving": sum(one.received for one in bulk.receiving) if bulk is not None else 0,
            "files": self.received_files,
            "sent": self.sent_messages,
        }

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # ---- send

    async def send(self, heads: list[BlobHead]) -> None:
        """Send files of this node to all others. Returns when they have them, or when that is not possible now."""
        bulk = self._bulk
        if bulk is None or not self.is_ready:
            return
        try:
            for _ in range(ATTEMPTS):
                outcome = await self._send_once(bulk, heads)
                if outcome is not Outcome.REJECTED:
                    break
        except (TimeoutError, BulkClosed, OSError) as error:
            log_message(
                f"the release is not multicast, nodes fetch it: {error or 'no node received anything for a while'}"
            )
            return
        if outcome is Outcome.ACCEPTED:
            self.sent_messages += 1
            return
        log_message(f"the release is not multicast, nodes fetch it: the message was {outcome.value}")

    async def _send_once(self, bulk: Bulk, heads: list[BlobHead]) -> Outcome:
        """Raises TimeoutError if there is no progress for STALL_S."""
        loop = asyncio.get_running_loop()
        last: tuple[int, ...] = ()
        async with asyncio.timeout(STALL_S) as limit:

            def on_progress(progress: SendProgress) -> None:
                nonlocal last
                now = (progress.sent, *sorted(progress.receivers.values()))
                if now != last:
                    last = now
                    limit.reschedule(loop.time() + STALL_S)

            return await bulk.send(self._read(heads), on_progress, min_rate=SLOWEST_BPS, max_rate=self._rate_bps)

    async def _read(self, heads: list[BlobHead]) -> AsyncIterator[bytes]:
        table = _encode(heads)
        pending = bytearray(_LENGTH.pack(len(table)) + table)
        for head in heads:
            offset = 0
            while offset < head.size:
                piece = await asyncio.to_thread(self._read_piece, head, offset)
                offset += len(piece)
                pending += piece
                if len(pending) >= PIECE:
                    yield bytes(pending)
                    pending.clear()
        if pending:
            yield bytes(pending)

    def _read_piece(self, head: BlobHead, offset: int) -> bytes:
        with self._blobs.path_of(head.digest).open("rb") as file:
            file.seek(offset)
            piece = file.read(min(PIECE, head.size - offset))
        if not piece:
            raise OSError(f"file {head.digest[:12]} of the release is shorter than its manifest says")
        return piece

    # ---- receive

    async def caught_up(self) -> None:
        """Wait until all files that the cluster has accepted are stored here; not longer than WAIT_S without news."""
        loop, bulk = asyncio.get_running_loop(), self._bulk
        before: tuple[int, ...] = ()
        deadline = 0.0
        while bulk is not None and bulk is self._bulk and (bulk.backlog or self._unpacking):
            progress = self._progress(bulk)
            if progress != before:
                before, deadline = progress, loop.time() + WAIT_S
            elif loop.time() >= deadline:
                return
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._changed.wait()

    def _progress(self, bulk: Bulk) -> tuple[int, ...]:
        return bulk.backlog, self._unpacking, self.received_files, *(one.received for one in bulk.receiving)

    async def _run(self) -> None:
        while True:
            membership = self._membership
            try:
                self._bulk = await Bulk.share(
                    membership.transport_order, membership.transport, self._folder, self._group
                )
                try:
                    await self._receive(self._bulk)
                    log_message(f"multicast stopped, and begins again in {RESTART_S:g} s: {self._bulk.error}")
                finally:
                    bulk, self._bulk = self._bulk, None
                    self._changed.set()
                    await bulk.close()
            except (CannotListen, ValueError, OSError) as error:
                log_message(
                    f"--multicast {self._group}: {error}; nodes fetch releases; next attempt in {RESTART_S:g} s"
                )
            await asyncio.sleep(RESTART_S)

    async def _receive(self, bulk: Bulk) -> None:
        async for message in bulk.deliveries():
            if isinstance(message, BulkMessage):
                self._unpacking += 1
                try:
                    if message.producer != bulk.replica.me:
                        await asyncio.to_thread(self._unpack, message.path)
                except (ValueError, OSError) as error:
                    log_message(f"multicast message {message.number} of {message.producer.name}: {error}")
                finally:
                    await asyncio.to_thread(message.path.unlink)
                    self._unpacking -= 1
                    self._changed.set()

    def _unpack(self, path: Path) -> None:
        """Store the files of a message, in a thread. Raises ValueError, OSError."""
        with path.open("rb") as file:
            prefix = file.read(_LENGTH.size)
            if len(prefix) < _LENGTH.size or _LENGTH.unpack(prefix)[0] > LIST_LEN_MAX:
                raise ValueError("it does not begin with a list of files")
            heads = _decode(file.read(_LENGTH.unpack(prefix)[0]))  # a DecodeError is a ValueError
            if not all(is_digest(head.digest) and head.size >= 0 for head in heads):
                raise ValueError("its list of files has an entry that is no digest")
            self._blobs.check_space(sum(head.size for head in heads))
            for head in heads:
                if self._blobs.has(head.digest):
                    file.seek(head.size, 1)
                else:
                    self._blobs.copy_in(head.digest, file, head.size, head.mtime_s)
                    self.received_files += 1
