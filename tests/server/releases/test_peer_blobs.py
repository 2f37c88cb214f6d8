"""Files between nodes: only nodes with the cluster key get them, and only the content that was asked for is stored."""

from __future__ import annotations

import http.server
import threading
import time
from typing import TYPE_CHECKING

import pytest

from qosweb.releases.blob_store import BlobStore
from qosweb.releases.manifest import digest_of
from qosweb.server.releases.peer_blobs import VALID_S, BlobKey, NotObtained, obtain_blob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY, OTHER = BlobKey(b"k" * 32), BlobKey(b"o" * 32)
CONTENT = b"content" * 1000
DIGEST = digest_of(CONTENT)
NOW_S = 1_000_000.0


def test_a_proof_is_for_one_digest_one_key_and_a_short_time() -> None:
    proof = KEY.proof(DIGEST, NOW_S)
    assert KEY.accepts(DIGEST, proof, NOW_S)
    assert KEY.accepts(DIGEST, proof, NOW_S - VALID_S)  # a clock that is behind
    assert not KEY.accepts(digest_of(b"another"), proof, NOW_S)
    assert not OTHER.accepts(DIGEST, proof, NOW_S)
    assert not KEY.accepts(DIGEST, proof, NOW_S + 3 * VALID_S)
    until, _, mark = proof.removeprefix("QoSweb ").partition(".")
    assert not KEY.accepts(DIGEST, f"QoSweb {int(until) + 1}.{mark}", NOW_S)


@pytest.mark.parametrize(
    "proof",
    ["", "Bearer x", "QoSweb", "QoSweb .", "QoSweb 1.x", "QoSweb ²2.x", "QoSweb 1000000.é", "QoSweb " + "9" * 99],
)
def test_what_is_no_proof(proof: str) -> None:
    assert not KEY.accepts(DIGEST, proof, NOW_S)


class Peer(http.server.BaseHTTPRequestHandler):
    """A node that sends whatever `content` is."""

    content: bytes | None = CONTENT

    def do_GET(self) -> None:
        assert KEY.accepts(self.path.rpartition("/")[2], self.headers["Authorization"], time.time())
        self.send_response(404 if self.content is None else 200)
        self.send_header("Content-Length", str(len(self.content or b"")))
        self.end_headers()
        self.wfile.write(self.content or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def peer() -> Iterator[tuple[str, type[Peer]]]:
    handler = type("OnePeer", (Peer,), {})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", handler
        server.shutdown()


def test_a_file_comes_from_the_first_peer_that_has_it(tmp_path: Path, peer: tuple[str, type[Peer]]) -> None:
    blobs = BlobStore(tmp_path)
    obtain_blob(blobs, KEY, ["http://127.0.0.1:1", peer[0]], DIGEST, 77, len(CONTENT))
    assert blobs.path_of(DIGEST).read_bytes() == CONTENT
    assert blobs.path_of(DIGEST).stat().st_mtime == 77


@pytest.mark.parametrize("content", [None, b"other content", CONTENT + b"x"])
def test_wrong_content_is_not_stored(tmp_path: Path, peer: tuple[str, type[Peer]], content: bytes | None) -> None:
    peer[1].content = content
    blobs = BlobStore(tmp_path)
    with pytest.raises(NotObtained, match="cannot be fetched"):
        obtain_blob(blobs, KEY, [peer[0]], DIGEST, None, len(CONTENT))
    assert not blobs.has(DIGEST)


def test_no_peer(tmp_path: Path) -> None:
    with pytest.raises(NotObtained, match="no other node"):
        obtain_blob(BlobStore(tmp_path), KEY, [], DIGEST, None, None)
