"""Exchange of release files between the nodes of a cluster, over their HTTP ports.

A node asks another one for `/.qosweb/blobs/DIGEST`. The request proves that it comes from a node of the cluster: it
carries a keyed hash of the digest and of a time after which it is no longer valid. The content needs no such proof: it
has to have the digest that was asked for, so the certificate of a node with TLS is not checked either.
"""

from __future__ import annotations

import hmac
import http.client
import ssl
import time
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from qosweb.releases.blob_store import WrongContent
from qosweb.server.request.release_stages import BLOB_PATH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.releases.blob_store import BlobStore


SCHEME = "QoSweb"
VALID_S = 60
PIECE = 256 << 10
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
    blobs: BlobStore, key: BlobKey, peers: Sequence[str], digest: str, mtime_s: int | None, size: int | None
) -> None:
    """Fetch a blob from one of `peers` (http://host:port) and store it. Blocks.

    `size`: its size, if known. Raises NotObtained, or OSError if this node cannot store it.
    """
    problems: list[str] = []
    for peer in peers:
        for _ in range(TRIES):
            try:
                if not _fetch(blobs, key, peer, digest, size):
                    problems.append(f"{peer} does not have it")
                    break
                blobs.complete(digest, mtime_s)
            except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError, WrongContent) as error:
                problems.append(f"{peer}: {error or type(error).__name__}")
                continue
            return
    raise NotObtained(f"file {digest[:12]} cannot be fetched: {'; '.join(problems) or 'there is no other node'}")


def _fetch(blobs: BlobStore, key: BlobKey, peer: str, digest: str, size: int | None) -> bool:
    """Receive a blob into the store. Returns False if the peer does not have it."""
    address = urlsplit(peer)
    assert address.hostname is not None
    connection: http.client.HTTPConnection
    if address.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # see above
        connection = http.client.HTTPSConnection(address.hostname, address.port, timeout=TIMEOUT_S, context=context)
    else:
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", BLOB_PATH + digest, headers={"Authorization": key.proof(digest, time.time())})
        response = connection.getresponse()
        if response.status != 200:
            return False
        blobs.discard(digest)
        offset = 0
        while piece := response.read(PIECE):
            if size is not None and offset + len(piece) > size:
                raise WrongContent("it is longer than the release says")
            blobs.receive(digest, offset, piece)
            offset += len(piece)
        if not offset:
            blobs.receive(digest, 0, b"")
        return True
    finally:
        connection.close()
