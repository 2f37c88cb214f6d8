"""Files between nodes: only nodes with the cluster key get them, and only the content that was asked for is stored."""

from __future__ import annotations

import http.server
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from qosweb.releases.blob_store import FROM_PEER, URGENT_SPARE_BYTES, BlobStore
from qosweb.releases.manifest import digest_of
from qosweb.server.files.files import HeldElsewhere
from qosweb.server.releases.peer_blobs import BUSY, VALID_S, BlobKey, NotObtained, obtain_blob

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
    """A node that sends whatever `content` is, in pieces, and is busy before each of them."""

    protocol_version = "HTTP/1.1"
    content: bytes | None = CONTENT
    piece = 1 << 20
    is_busy = True
    offsets: list[int]

    def do_GET(self) -> None:
        assert KEY.accepts(self.path.rpartition("/")[2], self.headers["Authorization"], time.time())
        offset = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        part = (self.content or b"")[offset : offset + self.piece]
        type(self).is_busy = not self.is_busy
        if self.content is None or not self.is_busy:
            self.send_response(404 if self.content is None else BUSY)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.offsets.append(offset)
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {offset}-{offset + len(part) - 1}/{len(self.content)}")
        self.end_headers()
        self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def peer() -> Iterator[tuple[str, type[Peer]]]:
    handler = type("OnePeer", (Peer,), {"offsets": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", handler
        server.shutdown()


def test_a_file_comes_from_the_first_peer_that_has_it(tmp_path: Path, peer: tuple[str, type[Peer]]) -> None:
    blobs = BlobStore(tmp_path)
    obtain_blob(blobs, KEY, ["http://127.0.0.1:1", peer[0]], DIGEST, 77, len(CONTENT))
    assert blobs.path_of(DIGEST).read_bytes() == CONTENT
    assert blobs.path_of(DIGEST).stat().st_mtime == 77


def test_a_fetch_goes_on_where_it_stopped(tmp_path: Path, peer: tuple[str, type[Peer]]) -> None:
    peer[1].piece = 3000
    blobs = BlobStore(tmp_path)
    blobs.receive(DIGEST, 0, CONTENT[:500], FROM_PEER)
    obtain_blob(blobs, KEY, [peer[0]], DIGEST, None, len(CONTENT))
    assert peer[1].offsets == [500, 3500, 6500]
    assert blobs.path_of(DIGEST).read_bytes() == CONTENT


def test_an_empty_file(tmp_path: Path, peer: tuple[str, type[Peer]]) -> None:
    peer[1].content = b""
    blobs = BlobStore(tmp_path)
    obtain_blob(blobs, KEY, [peer[0]], digest_of(b""), None, 0)
    assert blobs.path_of(digest_of(b"")).read_bytes() == b""


@pytest.mark.parametrize("content", [None, b"other content", CONTENT + b"x"])
def test_wrong_content_is_not_stored(tmp_path: Path, peer: tuple[str, type[Peer]], content: bytes | None) -> None:
    peer[1].content = content
    blobs = BlobStore(tmp_path)
    with pytest.raises(NotObtained, match="cannot be fetched"):
        obtain_blob(blobs, KEY, [peer[0]], DIGEST, None, len(CONTENT))
    assert not blobs.has(DIGEST)


def test_a_file_for_which_the_disk_has_no_room(
    tmp_path: Path, peer: tuple[str, type[Peer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer[1].piece = 3000
    blobs = BlobStore(tmp_path)
    free = [URGENT_SPARE_BYTES + len(CONTENT) - 1]
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free[0]))
    with pytest.raises(HeldElsewhere) as found:
        obtain_blob(blobs, KEY, [peer[0]], DIGEST, None, len(CONTENT), is_urgent=True)
    assert found.value.node_url == peer[0]
    assert blobs.received(DIGEST, FROM_PEER) == 0  # nothing of it stays
    free[0] += 1
    obtain_blob(blobs, KEY, [peer[0]], DIGEST, None, len(CONTENT), is_urgent=True)
    assert blobs.has(DIGEST)


def test_no_peer(tmp_path: Path) -> None:
    with pytest.raises(NotObtained, match="no other node"):
        obtain_blob(BlobStore(tmp_path), KEY, [], DIGEST, None, None)
