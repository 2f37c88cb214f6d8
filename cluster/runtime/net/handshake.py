"""Peer authentication handshake: each side proves that it has the cluster key, bound to this connection.

    dialer    -> acceptor   Hail(magic, version, cluster, nonce)
    acceptor  -> dialer     Hail(magic, version, cluster, nonce)
    dialer    -> acceptor   Proof(who, HMAC-SHA256(key, "dialer" | version | cluster | both nonces | who))
    acceptor  -> dialer     Proof(who, HMAC-SHA256(key, "acceptor" | ...)), or Refusal(reason)

An unauthenticated peer learns the version and the cluster name, nothing else: identities come with the proof, and the
acceptor proves itself only to an authenticated dialer. The roles in the codes prevent reflection of a proof; the nonces
prevent replay. Pure: the caller supplies the nonce, keeps the time and sends what is returned.
Above: connections.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from cluster.messages import Message
from cluster.names import NAME_LEN_MAX, ProcessId
from cluster.runtime.net.wire import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC = "qosweb-group"
VERSION = 2
NONCE_LEN = 32
HANDSHAKE_LEN_MAX = 4096  # bytes per handshake frame
ADDRESSES_EACH_MAX = 8
NONCES_KEPT = 4096
INTERIM = "interim"  # the interim-atomic service
DATA = "data"  # the data service
REPORTS = "reports"  # semantically reliable broadcast, on a connection of its own
SERVICES_MAX = 16
REASON_LEN_MAX = 400  # characters of a refusal that are shown


class Hail(Message, frozen=True, tag="Hail"):
    """First message of each side: protocol version, cluster name and nonce."""

    magic: str
    version: int
    cluster: str
    nonce: bytes


class Proof(Message, frozen=True, tag="Proof"):
    """Identity of the sender with its authentication code."""

    who: bytes
    code: bytes


class Refusal(Message, frozen=True, tag="Refusal"):
    """Sent by the process `name` to an authenticated peer that it does not accept, with the reason."""

    name: str
    reason: str
    kind: str = ""


class Dialect(msgspec.Struct, frozen=True, array_like=True):
    """Format and language versions of the application's state machine. Members must have equal `form`.

    `form`: the format of entries and snapshots. `reads`: the highest language version that this process understands.
    `needs`: the version that the current content requires. A process that cannot read it is refused during the
    handshake: as a member it would stop and cost the others a view change.
    """

    form: int = 0
    reads: int = 0
    needs: int = 0


class PeerIdentity(msgspec.Struct, frozen=True, array_like=True):
    """Identity of a process. `group`: the founding that it belongs to; empty while unknown.

    `blind`: it dialed an address without knowing which process is there, so the two may be connected already.
    `probe`: it only asks whether the cluster was founded, and hangs up (`founding_check.py`).
    `services`: optional services of the process (`INTERIM`, `DATA`, `REPORTS`); it understands their messages.
    `stream`: what the dialer opens this connection for: empty for the link, or a service that has its own.
    """

    process: ProcessId
    boot: int
    addresses: tuple[str, ...]
    group: str
    blind: bool = False
    probe: bool = False
    dialect: Dialect = Dialect()
    services: tuple[str, ...] = ()
    stream: str = ""


class HandshakeFailed(Exception):
    """The handshake failed. `kind` names the counter to increment."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


GARBAGE, VERSION_MISMATCH, FOREIGN_CLUSTER, WRONG_KEY, REPLAY = (
    "garbage", "version", "foreign_cluster", "wrong_key", "replay",
)  # fmt: skip
FOREIGN_GROUP, REFUSED, SLOW, CROWD, BROKEN = "foreign_group", "refused", "slow", "crowd", "broken"
KINDS = (GARBAGE, VERSION_MISMATCH, FOREIGN_CLUSTER, WRONG_KEY, REPLAY, FOREIGN_GROUP, REFUSED, SLOW, CROWD, BROKEN)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Hail | Proof | Refusal).decode
_decode_identity = msgspec.msgpack.Decoder(PeerIdentity).decode


class SeenNonces:
    """Nonces of recent dialers, to tell a replay from a wrong key."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[bytes, None] = {}

    def add(self, nonce: bytes) -> bool:
        """Record the nonce; returns whether it is new."""
        if nonce in self._seen:
            return False
        self._seen[nonce] = None
        if len(self._seen) > NONCES_KEPT:
            del self._seen[next(iter(self._seen))]
        return True


class Handshake:
    """One side of one handshake. `peer` is set when the other side is authenticated."""

    __slots__ = ("_accepts", "_cluster", "_decide", "_identity", "_key", "_nonce", "_seen", "_theirs", "answered",
                 "peer", "refused_by")  # fmt: skip

    def __init__(
        self,
        *,
        accepts: bool,
        key: bytes,
        cluster: str,
        identity: PeerIdentity,
        nonce: bytes,
        seen: SeenNonces,
        decide: Callable[[PeerIdentity], str],
    ) -> None:
        """`decide`: returns why an authenticated peer is not accepted; empty if it is."""
        self._accepts = accepts
        self._key = key
        self._cluster = cluster
        self._identity = identity
        self._nonce = nonce
        self._seen = seen
        self._decide = decide
        self._theirs = b""
        self.answered = False  # the peer speaks the protocol
        self.peer: PeerIdentity | None = None
        self.refused_by = ""  # the name of the peer, if it refused

    def open(self) -> bytes:
        """The first message to send; empty for the acceptor."""
        return b"" if self._accepts else self._hail()

    def receive(self, data: bytes | memoryview) -> bytes:
        """Process a frame of the peer and return the response. Raises HandshakeFailed; sets `peer` at the end."""
        try:
            message = _decode(data)
        except UNREADABLE as error:
            raise HandshakeFailed(GARBAGE, f"invalid handshake message: {error}") from None
        if isinstance(message, Hail) and not self._theirs:
            return self._hailed(message)
        if isinstance(message, Proof) and self._theirs:
            return self._proved(message)
        if isinstance(message, Refusal) and self._theirs and not self._accepts:
            if message.kind in (FOREIGN_GROUP, VERSION_MISMATCH):
                raise HandshakeFailed(
                    message.kind, f"{message.name[:NAME_LEN_MAX]} refused: {message.reason[:REASON_LEN_MAX]}"
                )
            self.refused_by = message.name
            raise HandshakeFailed(REFUSED, f"the peer refused: {message.reason[:REASON_LEN_MAX]}")
        raise HandshakeFailed(GARBAGE, f"unexpected {type(message).__name__}")

    def _hail(self) -> bytes:
        return _encode(Hail(MAGIC, VERSION, self._cluster, self._nonce))

    def _hailed(self, hail: Hail) -> bytes:
        if hail.magic != MAGIC or len(hail.nonce) != NONCE_LEN:
            raise HandshakeFailed(GARBAGE, "not the greeting of a group member")
        if hail.version != VERSION:
            text = f"the peer speaks version {hail.version} of the group protocol, this process version {VERSION}"
            raise self._not_ours(VERSION_MISMATCH, text)
        if hail.cluster != self._cluster:
            text = (
                f"the peer belongs to cluster {hail.cluster[:64]!r}, this process to {self._cluster!r}: only with the "
                "cluster id of the peer, and without data of another cluster, can a process join it"
            )
            raise self._not_ours(FOREIGN_CLUSTER, text)
        if hail.nonce == self._nonce or (self._accepts and not self._seen.add(hail.nonce)):
            raise HandshakeFailed(REPLAY, "the peer's nonce was used before")
        self._theirs = hail.nonce
        self.answered = True
        return self._hail() if self._accepts else self._proof()

    def _not_ours(self, kind: str, text: str) -> HandshakeFailed:
        """Fail, but send the greeting: the peer sees the reason, and learns only what any peer may learn."""
        return PeerRefused(kind, text, self._hail()) if self._accepts else HandshakeFailed(kind, text)

    def _proved(self, proof: Proof) -> bytes:
        dialer = self._accepts
        if not hmac.compare_digest(proof.code, self._code(proof.who, dialer=dialer)):
            raise HandshakeFailed(WRONG_KEY, "the proof of the peer is wrong: it has another cluster key")
        try:
            peer = _decode_identity(proof.who)
        except UNREADABLE as error:
            raise HandshakeFailed(GARBAGE, f"invalid identity: {error}") from None
        _check_identity(peer)
        kind, reason = _foreign(peer, self._identity)
        if not reason:
            kind, reason = REFUSED, self._decide(peer)
        if reason:
            if self._accepts:
                raise PeerRefused(kind, reason, _encode(Refusal(self._identity.process.name, reason, kind)))
            raise HandshakeFailed(kind, reason)
        self.peer = peer
        return self._proof() if self._accepts else b""

    def _proof(self) -> bytes:
        who = _encode(self._identity)
        return _encode(Proof(who, self._code(who, dialer=not self._accepts)))

    def _code(self, who: bytes, *, dialer: bool) -> bytes:
        nonces = (self._theirs, self._nonce) if self._accepts else (self._nonce, self._theirs)
        said = _encode(["dialer" if dialer else "acceptor", VERSION, self._cluster, *nonces, who])
        return hmac.new(self._key, said, sha256).digest()


class PeerRefused(HandshakeFailed):
    """A peer that is refused and told why: an authenticated one, or one of another version or cluster."""

    def __init__(self, kind: str, reason: str, answer: bytes) -> None:
        super().__init__(kind, reason)
        self.answer = answer


def _check_identity(peer: PeerIdentity) -> None:
    process = peer.process
    if not process.name or len(process.name) > NAME_LEN_MAX or process.incarnation < 0 or peer.boot < 1:
        name = process.name[:NAME_LEN_MAX]
        raise HandshakeFailed(GARBAGE, f"invalid process identity: {name!r}.{process.incarnation}, boot {peer.boot}")
    if len(peer.services) > SERVICES_MAX:
        raise HandshakeFailed(GARBAGE, f"too many services of {process}")
    if len(peer.addresses) > ADDRESSES_EACH_MAX or any(len(address) > 256 for address in peer.addresses):
        raise HandshakeFailed(GARBAGE, f"too many or too long addresses of {process}")


def _foreign(peer: PeerIdentity, own: PeerIdentity) -> tuple[str, str]:
    """Kind and reason of a refusal: processes of different foundings never connect."""
    if peer.probe:
        if own.group:
            return FOREIGN_GROUP, (
                f"{peer.process} was told to found this cluster, but {own.process} is already a member of it (founding "
                f"{own.group[:12]}): start {peer.process.name} without founding, and it joins"
            )
        return REFUSED, f"{own.process} waits to join and is not a member yet"
    if peer.group and own.group and peer.group != own.group:
        return FOREIGN_GROUP, (
            f"{peer.process} belongs to another founding of this cluster than {own.process} ({peer.group[:12]}, not "
            f"{own.group[:12]}): a cluster is founded once; stop the wrong process, remove its data and "
            "let it join"
        )
    return _of_other_version(peer, own)


def _of_other_version(peer: PeerIdentity, own: PeerIdentity) -> tuple[str, str]:
    theirs, ours = peer.dialect, own.dialect
    if theirs.form != ours.form:
        return VERSION_MISMATCH, (
            f"the entries of {peer.process} are of form {theirs.form}, those of {own.process} of form {ours.form}: run "
            "the same version on both"
        )
    for one, other in ((peer, own), (own, peer)):
        if one.dialect.reads < other.dialect.needs:
            return VERSION_MISMATCH, (
                f"{one.process} understands language {one.dialect.reads}, and what {other.process} has is in language "
                f"{other.dialect.needs}: run the same version on both"
            )
    return "", ""
