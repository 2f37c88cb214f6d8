"""Fuzzes both sides of a handshake: any input fails with HandshakeFailed or continues, at bounded cost.

The input is bytes that a decoder refuses, well-formed messages with any content, and such messages with a valid proof:
a peer with the key that sends nonsense.
"""

from __future__ import annotations

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.names import ProcessId
from cluster.runtime.net.handshake import (
    FOREIGN_GROUP,
    HANDSHAKE_LEN_MAX,
    KINDS,
    MAGIC,
    NONCE_LEN,
    NONCES_KEPT,
    VERSION,
    VERSION_MISMATCH,
    Dialect,
    Hail,
    Handshake,
    HandshakeFailed,
    PeerIdentity,
    PeerRefused,
    Proof,
    Refusal,
    SeenNonces,
)

ME = PeerIdentity(ProcessId("b"), 3, ("127.0.0.1:1",), "founding", dialect=Dialect(1, 2, 2))
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.integers(0, 3)
TEXTS = st.text(max_size=300) | st.sampled_from(["", "c", "a", "b", "founding", "x" * 2000])
HAILS = st.builds(
    Hail, st.just(MAGIC) | TEXTS, st.just(VERSION) | NUMBERS, st.just("c") | TEXTS,
    st.binary(min_size=NONCE_LEN, max_size=NONCE_LEN) | st.binary(max_size=100),
)  # fmt: skip
IDENTITIES = st.builds(
    PeerIdentity, st.builds(ProcessId, TEXTS, NUMBERS), NUMBERS, st.lists(TEXTS, max_size=10).map(tuple), TEXTS,
    st.booleans(), st.booleans(), st.builds(Dialect, NUMBERS, NUMBERS, NUMBERS),
)  # fmt: skip
WHO = st.binary(max_size=200) | IDENTITIES.map(msgspec.msgpack.encode)
PROOFS = st.builds(Proof, WHO, st.binary(max_size=40))
REFUSALS = st.builds(Refusal, TEXTS, TEXTS, st.sampled_from(["", FOREIGN_GROUP, VERSION_MISMATCH]) | TEXTS)
MESSAGES = st.lists(HAILS | PROOFS | REFUSALS, max_size=5)
HELLO = Hail(MAGIC, VERSION, "c", b"t" * NONCE_LEN)


def side(*, accepts: bool, seen: SeenNonces | None = None) -> Handshake:
    return Handshake(
        accepts=accepts, key=b"k" * 32, cluster="c", identity=ME, nonce=b"m" * NONCE_LEN, seen=seen or SeenNonces(),
        decide=lambda _peer: "",
    )  # fmt: skip


def feed(handshake: Handshake, data: bytes) -> bool:
    """Whether the handshake continues. Responses and failure texts are bounded."""
    answer = b""
    failure: HandshakeFailed | None = None
    try:
        answer = handshake.receive(data)
    except PeerRefused as unwanted:
        answer, failure = unwanted.answer, unwanted
    except HandshakeFailed as failed:
        failure = failed
    assert len(answer) <= HANDSHAKE_LEN_MAX
    if failure is None:
        return True
    assert failure.kind in KINDS
    assert len(str(failure)) <= HANDSHAKE_LEN_MAX + 500
    return False


@given(st.booleans(), st.booleans(), st.binary(max_size=HANDSHAKE_LEN_MAX))
@example(True, False, (b"\x96" + msgspec.msgpack.encode(HELLO)[1:]).ljust(HANDSHAKE_LEN_MAX, b"\x91"))
@example(False, True, b"\x93\xa5Proof\xdd\xff\xff\xff\xff")
def test_any_bytes(accepts: bool, greeted: bool, data: bytes) -> None:
    handshake = side(accepts=accepts)
    if greeted:
        assert feed(handshake, msgspec.msgpack.encode(HELLO))
    feed(handshake, data)
    assert handshake.peer is None


@given(st.booleans(), MESSAGES)
def test_any_messages_of_a_peer_without_the_key(accepts: bool, messages: list[Hail | Proof | Refusal]) -> None:
    handshake = side(accepts=accepts)
    for message in messages:
        if not feed(handshake, msgspec.msgpack.encode(message)):
            break
    assert handshake.peer is None


@given(st.booleans(), st.sampled_from([HELLO, Refusal("a", "no"), Proof(b"", b"")]), st.data())
def test_a_damaged_message(accepts: bool, message: Hail | Proof | Refusal, data: st.DataObject) -> None:
    text = bytearray(msgspec.msgpack.encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    handshake = side(accepts=accepts)
    if feed(handshake, bytes(text)):
        feed(handshake, bytes(text))
    assert handshake.peer is None


@given(st.booleans(), WHO)
@example(True, b"\x98" + msgspec.msgpack.encode(ME)[1:] + b"\x91" * 3000)
def test_any_identity_of_a_peer_with_the_key(accepts: bool, who: bytes) -> None:
    handshake = side(accepts=accepts)
    assert feed(handshake, msgspec.msgpack.encode(HELLO))
    went_on = feed(handshake, msgspec.msgpack.encode(Proof(who, handshake._code(who, dialer=accepts))))
    assert went_on == (handshake.peer is not None)
    if handshake.peer is not None:
        assert handshake.peer.process.name
        assert handshake.peer.boot >= 1


def test_stored_nonces_are_bounded() -> None:
    seen = SeenNonces()
    for number in range(NONCES_KEPT + 100):
        hail = Hail(MAGIC, VERSION, "c", number.to_bytes(NONCE_LEN, "big"))
        assert feed(side(accepts=True, seen=seen), msgspec.msgpack.encode(hail))
    assert len(seen._seen) == NONCES_KEPT
