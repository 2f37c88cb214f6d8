"""Operations of the block list: to block a client or network, and to unblock it. Pure.

Every block operation has an id of its own, so that blocking again is a new operation. The text of a target is canonical
(`203.0.113.0/24`, `2001:db8::/32`): equal targets have equal texts.
"""

from __future__ import annotations

import ipaddress
import re
from math import inf
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from qosweb.http.targets import BadTarget
from qosweb.http.targets import parse_target as parse_target_of_request

PATH_LEN_MAX = 1024
REASON_LEN_MAX = 300
BY_LEN_MAX = 100
_PATH_SAFE = "".join(chr(code) for code in range(0x21, 0x7F))  # escapes in a path are already escapes
_ESCAPED = re.compile(r"[%?#]")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ListOperation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of the operations. The tag names the type on the wire and on disk, so it never changes."""


class BlockOperation(ListOperation, frozen=True, tag="block"):
    """Refuse the requests of a network for this path and everything below it (empty: for any path)."""

    id: str
    network: str
    path: str
    for_s: float  # duration in seconds; infinite: until it is unblocked
    reason: str
    by: str  # the operator who asked for it
    node: str  # the node that was asked
    at_s: float  # time of the request, by the wall clock of that node


class UnblockOperation(ListOperation, frozen=True, tag="unblock"):
    """Remove all blocks of this network and path that the list contains when the operation is applied."""

    network: str
    path: str
    by: str = ""  # the operator who asked for it
    node: str = ""  # the node that was asked


AnyOperation = BlockOperation | UnblockOperation
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AnyOperation).decode


def encode_operation(operation: AnyOperation) -> bytes:
    return _encode(operation)


def decode_operation(body: bytes) -> AnyOperation | None:
    """The operation in these bytes; None if it is malformed. All nodes judge alike."""
    try:
        operation: AnyOperation = _decode(body)
    except msgspec.MsgspecError:
        return None
    if prefix_of(operation.network) is None or len(operation.path) > PATH_LEN_MAX:
        return None
    if isinstance(operation, BlockOperation) and not (operation.id and 0 < operation.for_s <= inf):
        return None
    return operation


def parse_target(text: str) -> Network:
    """Parse an address or a network: ``203.0.113.7``, ``203.0.113.0/24``, ``2001:db8::/32``. Raises ValueError."""
    text = text.strip()
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        try:
            wider = ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ValueError(
                f"'{text}' is neither an address nor a network, such as 203.0.113.7 or 203.0.113.0/24"
            ) from None
        raise ValueError(f"'{text}' has bits beyond its prefix; the network is {wider}") from None
    if isinstance(network, ipaddress.IPv6Network):
        mapped = network.network_address.ipv4_mapped
        if mapped is not None and network.prefixlen >= 96:  # ::ffff:203.0.113.7 is the IPv4 address
            return ipaddress.IPv4Network((mapped, network.prefixlen - 96))
    return network


class Prefix(NamedTuple):
    """The first `length` bits of the addresses of a network."""

    version: int  # 4 or 6
    bits: int
    length: int


def prefix_of(network: str) -> Prefix | None:
    """The prefix of a network whose text is canonical, as `parse_target` returns it; None if it is not. Fast."""
    address, _, digits = network.partition("/")
    if not digits.isascii() or not digits.isdigit():
        return None
    family, version, width = (AF_INET6, 6, 128) if ":" in address else (AF_INET, 4, 32)
    length = int(digits)
    try:
        packed = inet_pton(family, address)
    except OSError:
        return None
    number = int.from_bytes(packed)
    if length > width or number & ((1 << (width - length)) - 1) or str(length) != digits:
        return None
    is_canonical = inet_ntop(family, packed) == address
    if version == 6 and (not is_canonical or "." in address):  # libraries write some IPv6 addresses in several ways
        is_canonical = str(parse_target(network)) == network
    return Prefix(version, number >> (width - length), length) if is_canonical else None


def parse_path(text: str) -> str:
    """The canonical path, decoded, of a path as in a request or as `shown_path` writes it. Raises ValueError."""
    escaped = quote(text, _PATH_SAFE)
    try:
        if text and (not text.startswith("/") or len(text) > PATH_LEN_MAX or not text.isprintable() or "?" in text):
            raise BadTarget(400, "a path begins with / and has neither a query nor control characters")
        path = parse_target_of_request(escaped or "/", must_be_file=False).path
        path.encode()
    except BadTarget as bad:
        raise ValueError(f"'{text[:80]}' is not a path, such as /shop or /login: {bad.reason}") from None
    except UnicodeEncodeError:
        raise ValueError(f"'{text[:80]}' is not a path: it is not UTF-8") from None
    return path.rstrip("/")


def shown_path(path: str) -> str:
    """A canonical path for people, who may give it to `parse_path` again."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", path)


def covers(path: str, requested: str) -> bool:
    """Whether a block of ``path`` applies to a request for ``requested``."""
    return not path or requested == path or requested.startswith(path + "/")
