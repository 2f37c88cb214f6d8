"""Handshake as a pure exchange of messages: which peers are accepted, and what refused peers learn."""

from __future__ import annotations

import msgspec
import pytest

from cluster.names import ProcessId
from cluster.runtime.net.handshake import (
    FOREIGN_CLUSTER,
    FOREIGN_GROUP,
    GARBAGE,
    MAGIC,
    REPLAY,
    VERSION,
    VERSION_MISMATCH,
    WRONG_KEY,
    Dialect,
    Hail,
    Handshake,
    HandshakeFailed,
    PeerIdentity,
    PeerRefused,
    Proof,
    SeenNonces,
)

KEY = b"k" * 32
A = PeerIdentity(ProcessId("a"), 1, ("127.0.0.1:1",), "")
B = PeerIdentity(ProcessId("b"), 3, (), "")
_numbers = iter(range(1, 1_000_000))


def side(who: PeerIdentity, *, accepts: bool, key: bytes = KEY, cluster: str = "c", seen: SeenNonces | None = None,
         decide: str = "") -> Handshake:  # fmt: skip
    nonce = next(_numbers).to_bytes(32, "big")
    return Handshake(
        accepts=accepts, key=key, cluster=cluster, identity=who, nonce=nonce, seen=seen or SeenNonces(),
        decide=lambda _peer: decide,
    )  # fmt: skip


def meet(dialer: Handshake, acceptor: Handshake) -> list[bytes]:
    said = [dialer.open()]
    while said[-1]:
        said.append((acceptor if len(said) % 2 else dialer).receive(said[-1]))
    return said


def test_two_peers_with_the_key_authenticate_each_other() -> None:
    dialer, acceptor = side(A, accepts=False), side(B, accepts=True)
    assert acceptor.open() == b""
    meet(dialer, acceptor)
    assert (dialer.peer, acceptor.peer) == (B, A)


def failure(dialer: Handshake, acceptor: Handshake) -> str:
    with pytest.raises(HandshakeFailed) as caught:
        meet(dialer, acceptor)
    assert dialer.peer is None
    return caught.value.kind


def test_the_acceptor_detects_a_wrong_key_first() -> None:
    assert failure(side(A, accepts=False, key=b"other" * 6), side(B, accepts=True)) == WRONG_KEY


def test_another_cluster_is_refused() -> None:
    assert failure(side(A, accepts=False, cluster="d"), side(B, accepts=True)) == FOREIGN_CLUSTER


def test_another_founding_is_refused() -> None:
    dialer = side(PeerIdentity(ProcessId("a"), 1, (), "one"), accepts=False)
    assert failure(dialer, side(PeerIdentity(ProcessId("b"), 1, (), "two"), accepts=True)) == FOREIGN_GROUP


def test_another_version_is_refused() -> None:
    with pytest.raises(HandshakeFailed) as caught:
        side(B, accepts=True).receive(msgspec.msgpack.encode(Hail(MAGIC, VERSION + 1, "c", b"n" * 32)))
    assert caught.value.kind == VERSION_MISMATCH
    assert f"version {VERSION + 1}" in str(caught.value)


def test_a_recording_cannot_be_replayed() -> None:
    seen = SeenNonces()
    said = meet(side(A, accepts=False), side(B, accepts=True, seen=seen))
    with pytest.raises(HandshakeFailed) as caught:
        side(B, accepts=True, seen=seen).receive(said[0])
    assert caught.value.kind == REPLAY
    later = side(B, accepts=True)  # has forgotten the nonce or never saw it
    later.receive(said[0])
    with pytest.raises(HandshakeFailed) as caught:
        later.receive(said[2])
    assert caught.value.kind == WRONG_KEY


def test_a_proof_cannot_be_reflected() -> None:
    dialer = side(A, accepts=False)
    hail = msgspec.msgpack.decode(dialer.open(), type=Hail)
    proof = dialer.receive(msgspec.msgpack.encode(Hail(MAGIC, VERSION, "c", bytes(32))))
    with pytest.raises(HandshakeFailed) as caught:
        dialer.receive(proof)
    assert caught.value.kind == WRONG_KEY
    with pytest.raises(HandshakeFailed) as caught:
        side(A, accepts=False).receive(b"")
    assert caught.value.kind == GARBAGE
    assert len(hail.nonce) == 32


def test_an_unauthenticated_peer_learns_no_names() -> None:
    acceptor = side(B, accepts=True)
    answer = acceptor.receive(msgspec.msgpack.encode(Hail(MAGIC, VERSION, "c", b"n" * 32)))
    assert msgspec.msgpack.decode(answer, type=Hail).cluster == "c"
    with pytest.raises(HandshakeFailed) as caught:
        acceptor.receive(msgspec.msgpack.encode(Proof(msgspec.msgpack.encode(A), b"guess")))
    assert caught.value.kind == WRONG_KEY


def test_a_refused_peer_learns_the_reason() -> None:
    dialer, acceptor = side(A, accepts=False), side(B, accepts=True, decide="not now")
    proof = dialer.receive(acceptor.receive(dialer.open()))
    with pytest.raises(PeerRefused) as caught:
        acceptor.receive(proof)
    with pytest.raises(HandshakeFailed, match="the peer refused: not now"):
        dialer.receive(caught.value.answer)
    assert dialer.refused_by == "b"


@pytest.mark.parametrize(
    "who",
    [
        PeerIdentity(ProcessId(""), 1, (), ""),
        PeerIdentity(ProcessId("n" * 65), 1, (), ""),
        PeerIdentity(ProcessId("a"), 0, (), ""),
        PeerIdentity(ProcessId("a", -1), 1, (), ""),
        PeerIdentity(ProcessId("a"), 1, ("x:1",) * 9, ""),
    ],
    ids=["no name", "long name", "no boot", "negative", "many addresses"],
)
def test_invalid_identities_are_rejected(who: PeerIdentity) -> None:
    assert failure(side(who, accepts=False), side(B, accepts=True)) == GARBAGE


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        (Dialect(1), Dialect(2), "are of form"),
        (Dialect(1, reads=1), Dialect(1, reads=2, needs=2), "a understands language 1"),
        (Dialect(1, reads=2, needs=2), Dialect(1, reads=1), "b understands language 1"),
    ],
)
def test_incompatible_dialects_are_refused(ours: Dialect, theirs: Dialect, words: str) -> None:
    dialer = side(msgspec.structs.replace(A, dialect=ours), accepts=False)
    acceptor = side(msgspec.structs.replace(B, dialect=theirs), accepts=True)
    with pytest.raises(PeerRefused, match=words) as caught:
        meet(dialer, acceptor)
    assert caught.value.kind == VERSION_MISMATCH
    with pytest.raises(HandshakeFailed, match=words) as told:
        dialer.receive(caught.value.answer)
    assert told.value.kind == VERSION_MISMATCH


def test_a_later_version_accepts_an_earlier_one_that_reads_its_content() -> None:
    dialer = side(msgspec.structs.replace(A, dialect=Dialect(1, reads=2, needs=1)), accepts=False)
    acceptor = side(msgspec.structs.replace(B, dialect=Dialect(1, reads=1, needs=1)), accepts=True)
    meet(dialer, acceptor)
    assert dialer.peer is not None


def test_a_peer_of_another_version_learns_the_reason() -> None:
    acceptor = side(B, accepts=True)
    with pytest.raises(PeerRefused) as caught:
        acceptor.receive(msgspec.msgpack.encode(Hail(MAGIC, VERSION + 1, "c", b"n" * 32)))
    assert msgspec.msgpack.decode(caught.value.answer, type=Hail).version == VERSION
