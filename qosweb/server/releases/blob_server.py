"""Blob server: sends files of releases to other nodes of the cluster, in pieces, from idle capacity."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Protocol

from qosweb.releases.manifest import is_digest
from qosweb.server.files.files import FileVersion
from qosweb.server.releases.peer_blobs import BUSY, PIECE_MAX, URGENT
from qosweb.server.request.answers import Answer, FileSpan, explain, serialise_head

if TYPE_CHECKING:
    from qosweb.releases.blob_store import BlobStore
    from qosweb.server.releases.peer_blobs import BlobKey
    from qosweb.server.request.exchange import Exchange

    class TakeCapacity(Protocol):
        """How many of so many bytes may be sent now; see `IdleCapacity.take`."""

        def __call__(self, most: int, /, *, is_urgent: bool = False) -> int: ...


_RANGE = re.compile(r"bytes=([0-9]{1,18})-")


class BlobServer:
    """Responds to requests of other nodes. Without a key, before the node joins a cluster, it refuses all."""

    def __init__(self, blobs: BlobStore, take: TakeCapacity) -> None:
        self.key: BlobKey | None = None
        self._blobs = blobs
        self._take = take

    def answer(self, exchange: Exchange, digest: str) -> Answer:
        """The next piece of a blob, from the offset in `Range` on."""
        proof = exchange.field("Authorization") or ""
        if self.key is None or not is_digest(digest) or not self.key.accepts(digest, proof, time.time()):
            return explain(401, "Only nodes of this cluster may fetch this.", [("WWW-Authenticate", "QoSweb")])
        wanted = _RANGE.fullmatch(exchange.field("Range") or "")
        if wanted is None:
            return explain(400, "The field Range must be bytes=OFFSET-.")
        name = os.fsencode(self._blobs.path_of(digest))
        try:
            identity = FileVersion.of(os.stat(name))
        except OSError:
            return explain(404, "This node does not have it.")
        offset = int(wanted[1])
        left = identity.size - offset
        if left < 0:
            return explain(416, "The file is shorter.", [("Content-Range", f"bytes */{identity.size}")])
        is_urgent = exchange.field("Priority") == URGENT
        size = self._take(min(left, PIECE_MAX), is_urgent=is_urgent) if left else 0
        if left and not size:
            return explain(BUSY, "This node has no capacity for transfers now.", [("Retry-After", "1")])
        fields = [
            ("Content-Length", str(size)),
            ("Content-Range", f"bytes {offset}-{offset + size - 1}/{identity.size}"),
            ("Content-Type", "application/octet-stream"),
        ]
        body = (FileSpan(name, identity, offset, size),) if size else (b"",)
        return Answer(206, serialise_head(206, fields), body)
