"""Signed one-time tickets: give a client that was redirected (307) the channel that is held for it at the other node.

A ticket contains the identity of the request (its owner and number), the node that it is for, the class, a digest of
the page (host and target), the expiry in milliseconds of cluster time, how long the request may still wait for room,
and its identifier in the access logs, so that all nodes log the same one. The ticket of a request that the node itself
forwards also contains the client's address: the other node cannot see it, and believes nobody else. It is signed with
HMAC-SHA256, truncated to 128 bits (RFC 2104 section 5), under a key that is derived from the cluster key, so that
neither key reveals the other. It travels as the query parameter ``qos-ticket`` after the query of the target. The node
removes it before anything else reads the target.

    ticket = base64url(version | MessagePack(owner, number, class, node, page, expiry, left, rid) | tag)
    version 3: of a redirect    version 4: of a forwarded request, with the client as the last element

``host`` is the host that the client will send to the other node: the authority of the redirect's address.

A check has one of six outcomes, tried in this order: forged (or not a ticket), for another node, for another page,
late, used, good. "Good" marks the ticket as used.

Time: the clocks of two nodes may differ by SKEW_MS. A ticket is late SKEW_MS after its expiry. It is also late if it
would stay valid for more than VALID_MS_MAX + SKEW_MS from now, because no node issues such a ticket. Time is monotonic
here: a clock that goes back does not make a used ticket valid again.

Memory: a used ticket is remembered until it is late anyway, so the check is exact. The memory holds USED_MAX tickets.
When it is full of tickets that are not late yet, further tickets count as used: their clients wait for their turn
again, which is better than giving one channel to two clients.

No clock: times are arguments. Neighbours: ``qosweb.server.request.stages`` removes tickets from targets.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hmac
import re
from hashlib import blake2b, sha256
from heapq import heappop, heappush
from ipaddress import ip_address
from typing import Annotated, NamedTuple

import msgspec

from cluster.names import ProcessId
from qosweb.engine.local.request_ids import LIFE_LEN, RequestId

PARAMETER = "qos-ticket"
SKEW_MS = 2_000
VALID_MS_MAX = 60_000
USED_MAX = 100_000
TEXT_LEN_MAX = 270

_REDIRECTED, _FORWARDED = b"\x03", b"\x04"  # versions
_TAG_LEN = 16
_KEY_LEN_MIN = 16
_DIGEST_LEN = 9
_TEXT = re.compile(rf"[A-Za-z0-9_-]{{1,{TEXT_LEN_MAX}}}", re.ASCII)


class TicketVerdict(enum.Enum):
    """Outcome of a check."""

    GOOD = "good"
    FORGED = "forged"
    OTHER_NODE = "for another node"
    OTHER_PAGE = "for another page"
    LATE = "late"
    USED = "used"


class Ticket(NamedTuple):
    """The verified content of a ticket."""

    owner: ProcessId  # the node where the request arrived
    number: int  # of the request at its owner
    class_number: int
    expires_ms: int
    left_ms: int | None  # remaining waiting time, if it is limited
    rid: RequestId  # for the log, if the ticket is good
    client: str = ""  # its address, if the node forwards the request


class _Wire(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The signed content of a ticket."""

    name: str
    incarnation: int
    number: int
    class_number: int
    node: bytes
    page: bytes
    expires_ms: int
    left_ms: int | None
    rid_life: Annotated[bytes, msgspec.Meta(min_length=LIFE_LEN, max_length=LIFE_LEN)]
    rid_number: Annotated[int, msgspec.Meta(ge=0)]


class _ForwardedWire(_Wire, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The same for a forwarded request."""

    client: Annotated[bytes, msgspec.Meta(min_length=4, max_length=16)]


class TicketOffice:
    """Issues this node's tickets, and checks the tickets that clients bring."""

    def __init__(self, cluster_key: bytes, me: ProcessId, used_max: int = USED_MAX) -> None:
        if len(cluster_key) < _KEY_LEN_MIN:
            raise ValueError(f"the cluster key has {len(cluster_key)} bytes, but needs at least {_KEY_LEN_MIN}")
        self._key = hmac.digest(cluster_key, b"qosweb ticket", "sha256")
        self._me = me
        self._used_max = used_max
        self._used: set[bytes] = set()  # tags
        self._late_at: list[tuple[int, bytes]] = []  # a heap: when each tag may be forgotten
        self._latest_ms = 0
        self._readers: dict[bytes, msgspec.msgpack.Decoder[_Wire] | msgspec.msgpack.Decoder[_ForwardedWire]] = {
            _REDIRECTED: msgspec.msgpack.Decoder(_Wire),
            _FORWARDED: msgspec.msgpack.Decoder(_ForwardedWire),
        }

    @property
    def remembered(self) -> int:
        return len(self._used)

    def issue(
        self,
        number: int,
        class_number: int,
        node: ProcessId,
        host: str,
        target: str,
        expires_ms: int,
        left_ms: int | None,
        rid: RequestId,
        client: str = "",
    ) -> str:
        """Issue a ticket for a request of this node to ``node``. ``client``: of a request that this node forwards."""
        packed = _packed(client)
        said = (
            self._me.name,
            self._me.incarnation,
            number,
            class_number,
            _digest_of(node),
            _page(host, target),
            expires_ms,
            left_ms,
            *rid,
        )
        if packed:
            signed = _FORWARDED + msgspec.msgpack.encode(_ForwardedWire(*said, packed))
        else:
            signed = _REDIRECTED + msgspec.msgpack.encode(_Wire(*said))
        return base64.urlsafe_b64encode(signed + self._tag(signed)).rstrip(b"=").decode()

    def check(self, text: str, host: str, target: str, now_ms: int) -> tuple[TicketVerdict, Ticket | None]:
        """Check a ticket at this node, for a request of ``target``. Returns the ticket too, if it is genuine."""
        verdict, ticket, tag = self._judge(text, host, target, now_ms)
        if verdict is TicketVerdict.GOOD:
            assert ticket is not None
            self._used.add(tag)
            heappush(self._late_at, (ticket.expires_ms + SKEW_MS, tag))
        return verdict, ticket

    def client_in(self, text: str, host: str, target: str, now_ms: int) -> str:
        """The client that another node forwards the request for; empty if the ticket is not good. Does not use it."""
        verdict, ticket, _ = self._judge(text, host, target, now_ms)
        return ticket.client if verdict is TicketVerdict.GOOD and ticket is not None else ""

    def _judge(self, text: str, host: str, target: str, now_ms: int) -> tuple[TicketVerdict, Ticket | None, bytes]:
        """The verdict, the ticket if it is genuine, and its tag."""
        self._latest_ms = now_ms = max(now_ms, self._latest_ms)
        self._forget_late()
        genuine = self._read(text)
        if genuine is None:
            return TicketVerdict.FORGED, None, b""
        wire, tag = genuine
        owner = ProcessId(wire.name, wire.incarnation)
        rid = RequestId(wire.rid_life, wire.rid_number)
        ticket = Ticket(owner, wire.number, wire.class_number, wire.expires_ms, wire.left_ms, rid, _client(wire))
        if wire.node != _digest_of(self._me):
            return TicketVerdict.OTHER_NODE, ticket, tag
        if wire.page != _page(host, target):
            return TicketVerdict.OTHER_PAGE, ticket, tag
        if not now_ms - SKEW_MS <= wire.expires_ms <= now_ms + VALID_MS_MAX + SKEW_MS:
            return TicketVerdict.LATE, ticket, tag
        if tag in self._used or len(self._used) >= self._used_max:
            return TicketVerdict.USED, ticket, tag
        return TicketVerdict.GOOD, ticket, tag

    def _read(self, text: str) -> tuple[_Wire, bytes] | None:
        if not _TEXT.fullmatch(text):
            return None
        try:
            said = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError):
            return None
        said, tag = said[:-_TAG_LEN], said[-_TAG_LEN:]
        reader = self._readers.get(said[:1])
        if not hmac.compare_digest(self._tag(said), tag) or reader is None:
            return None
        try:
            return reader.decode(said[1:]), tag
        except msgspec.DecodeError:  # signed with our key, by another version
            return None

    def _tag(self, said: bytes) -> bytes:
        return hmac.digest(self._key, said, "sha256")[:_TAG_LEN]

    def _forget_late(self) -> None:
        while self._late_at and self._late_at[0][0] < self._latest_ms:
            self._used.discard(heappop(self._late_at)[1])


def with_ticket(target: str, text: str) -> str:
    """``target`` with a ticket appended."""
    return f"{target}{'&' if '?' in target else '?'}{PARAMETER}={text}"


def without_ticket(target: str) -> tuple[str, str | None]:
    """Undo :func:`with_ticket`: the target, and the ticket or None. Of several tickets the last one counts."""
    path, mark, query = target.partition("?")
    if not mark or PARAMETER not in query:
        return target, None
    parts = query.split("&")
    kept = [part for part in parts if part.partition("=")[0] != PARAMETER]
    if len(kept) == len(parts):
        return target, None
    text = next(part.partition("=")[2] for part in reversed(parts) if part.partition("=")[0] == PARAMETER)
    return (f"{path}?{'&'.join(kept)}" if kept else path), text


def _packed(client: str) -> bytes:
    """The bytes of an address; none if the client has none."""
    try:
        return ip_address(client.partition("%")[0]).packed
    except ValueError:
        return b""


def _client(wire: _Wire) -> str:
    if not isinstance(wire, _ForwardedWire) or len(wire.client) not in (4, 16):
        return ""
    return str(ip_address(wire.client))


def _digest_of(node: ProcessId) -> bytes:
    return blake2b(msgspec.msgpack.encode((node.name, node.incarnation)), digest_size=_DIGEST_LEN).digest()


def _page(host: str, target: str) -> bytes:
    said = msgspec.msgpack.encode((host.lower(), target.encode("utf-8", "surrogateescape")))
    return sha256(said).digest()[:_DIGEST_LEN]
