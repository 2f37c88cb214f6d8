"""Protocol for release files between the nodes of a cluster, over their HTTP ports.

A node asks another one for `/.qosweb/blobs/DIGEST`. The request proves that it comes from a node of the cluster: it
carries a keyed hash of the digest and of a time after which it is no longer valid. The content needs no such proof: it
has to have the digest that was asked for, so the certificate of a node with TLS is not checked either.

Transfers have the lowest priority: a node sends a blob in pieces (206), each as large as its idle capacity allows, and
says 503 while there is none. The other node asks again. If a client waits for the blob, the other node says so.
"""

from __future__ import annotations

import hmac
import http.client
import ssl
import time
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from qosweb.releases.blob_store import FROM_PEER, WrongContent
from qosweb.server.files.files import HeldElsewhere
from qosweb.server.request.release_stages import BLOB_PATH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.releases.blob_store import BlobStore


SCHEME = "QoSweb"
VALID_S = 60
PIECE_MAX = 1 << 20  # sent at a time
URGENT, BACKGROUND = "u=0", "u=7"  # values of the field Priority (RFC 9218)
BUSY = 503  # the node has no capacity for transfers at the moment
BUSY_PAUSE_S = 0.02
STALLED_S = 30.0  # how long a node may be busy
TIMEOUT_S = 10.0
TRIES = 2  # with each peer


class NotObtained(OSError):
    """No other node has the file, or none can send it now."""


class BlobKey:
    """Makes and checks the proof that a request for a blob comes from a node of the cluster."""

    def __init__(self, cluster_key: bytes) -> None:
        self._key = blake2b(cluster_key, digest_size=32, person=b"qosweb-blobs").digest()

    def proof(self, digest: str, now_s: float) -> str:
        until = int(now_s) + VALID_S
        return f"{SCHEME} {until}.{self._hash(digest, until)}"

    def accepts(self, digest: str, proof: str, now_s: float) -> bool:
        scheme, _, rest = proof.partition(" ")
        until, _, given = rest.partition(".")
        if scheme != SCHEME or not until.isascii() or not until.isdigit() or len(until) > 12 or not given.isascii():
            return False
        if not now_s - VALID_S <= int(until) <= now_s + 3 * VALID_S:  # the clocks of nodes differ a little
            return False
        return hmac.compare_digest(given, self._hash(digest, int(until)))

    def _hash(self, digest: str, until: int) -> str:
        return hmac.digest(self._key, f"{digest} {until}".encode(), "sha256").hex()


def obtain_blob(
    blobs: BlobStore,
    key: BlobKey,
    peers: Sequence[str],
    digest: str,
    mtime_s: int | None,
    size: int | None,
    *,
    is_urgent: bool = False,
) -> None:
    """Fetch a blob from one of `peers` (http://host:port) and store it. Blocks. Continues where it stopped before.

    `size`: its size, if known. `is_urgent`: a client waits for it.
    Raises NotObtained, or OSError if this node cannot store it: HeldElsewhere if its disk has no room.
    """
    problems: list[str] = []
    for peer in peers:
        for _ in range(TRIES):
            try:
                if not _fetch(blobs, key, peer, digest, size, is_urgent=is_urgent):
                    problems.append(f"{peer} does not have it")
                    break
                blobs.complete(digest, mtime_s, FROM_PEER)
            except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError, WrongContent) as error:
                problems.append(f"{peer}: {error or type(error).__name__}")
                continue
            return
    raise NotObtained(f"file {digest[:12]} cannot be fetched: {'; '.join(problems) or 'there is no other node'}")


def _fetch(blobs: BlobStore, key: BlobKey, peer: str, digest: str, size: int | None, *, is_urgent: bool) -> bool:
    """Receive a blob into the store, in pieces. Returns False if the peer does not have it."""
    priority = URGENT if is_urgent else BACKGROUND
    offset = blobs.received(digest, FROM_PEER)
    waited_until = time.monotonic() + STALLED_S
    connection = _connect(peer)
    try:
        while True:
            proof = key.proof(digest, time.time())
            fields = {"Authorization": proof, "Range": f"bytes={offset}-", "Priority": priority}
            connection.request("GET", BLOB_PATH + digest, headers=fields)
            response = connection.getresponse()
            piece = response.read(PIECE_MAX + 1)
            if response.status == BUSY:
                if time.monotonic() > waited_until:
                    raise TimeoutError(f"it had no capacity for this transfer for {STALLED_S:g} s")
                time.sleep(BUSY_PAUSE_S)
                continue
            if response.status != 206:
                return False
            if len(piece) > PIECE_MAX or (size is not None and offset + len(piece) > size):
                blobs.discard(digest, FROM_PEER)
                raise WrongContent("it is longer than the release says")
            total = _total(response)
            try:
                blobs.check_space(total - offset, is_urgent=is_urgent)
            except OSError:
                blobs.discard(digest, FROM_PEER)
                raise HeldElsewhere(peer) from None
            blobs.receive(digest, offset, piece, FROM_PEER)
            offset += len(piece)
            waited_until = time.monotonic() + STALLED_S
            if offset >= total:
                return True
    finally:
        connection.close()


def _total(response: http.client.HTTPResponse) -> int:
    """The size of the blob, from `Content-Range: bytes 0-9/TOTAL`."""
    total = (response.headers["Content-Range"] or "").rpartition("/")[2]
    if not total.isascii() or not total.isdigit() or len(total) > 18:
        raise http.client.HTTPException("it sent no valid Content-Range")
    return int(total)


def _connect(peer: str) -> http.client.HTTPConnection:
    address = urlsplit(peer)
    assert address.hostname is not None
    if address.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # see above
        return http.client.HTTPSConnection(address.hostname, address.port, timeout=TIMEOUT_S, context=context)
    return http.client.HTTPConnection(address.hostname, address.port, timeout=TIMEOUT_S)
