"""PROXY protocol, versions 1 and 2: a proxy sends the client's address before the first byte of the client.

From: HAProxy's "The PROXY protocol", sections 2.1 (text header) and 2.2 (binary header).
The header is read from the socket itself, because TLS may follow, and never a byte more than the header.
Departs: additional information (TLVs) is ignored; a header longer than HEADER_LEN_MAX is malformed.
"""

from __future__ import annotations

import re
import socket
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import TYPE_CHECKING

from qosweb.http.forwarded import normal_address

if TYPE_CHECKING:
    import asyncio

HEADER_LEN_MAX = 4096  # of version 2

_TEXT = b"PROXY "
_TEXT_LEN_MIN = len(b"PROXY UNKNOWN\r\n")
_TEXT_LEN_MAX = 107
_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED_LEN = 16  # of version 2
_ADDRESSES_LEN = {0x11: 12, 0x21: 36}  # by family and transport: TCP over IPv4, over IPv6
_NO_ADDRESS = (0x00, 0x31)  # unspecified, Unix stream
_TEXT_HEADER = re.compile(rb"PROXY TCP([46]) ([0-9A-Fa-f:.]+) ([0-9A-Fa-f:.]+) ([0-9]{1,5}) ([0-9]{1,5})\r\n")


class BadProxyHeader(Exception):
    """The connection does not begin with a PROXY header."""


class NoHeader(Exception):
    """The connection ended without a byte, as the checks of some load balancers do."""


async def read_source(loop: asyncio.AbstractEventLoop, connection: socket.socket) -> str | None:
    """Read the header of a non-blocking socket: the client's address; None if the proxy connects for itself.

    Raises BadProxyHeader, NoHeader or OSError. The caller limits the time.
    """
    begun = b""
    while (count := bytes_missing(begun)) != 0:
        data = await loop.sock_recv(connection, 1 if count is None else count)
        if not data and not begun:
            raise NoHeader
        if not data:
            raise BadProxyHeader("the connection ended within the header")
        begun += data
        if count is None and not begun.endswith(b"\n"):
            begun += _receive_line(connection)
    return source_of(begun)


def _receive_line(connection: socket.socket) -> bytes:
    """Receives bytes of the current line, and none after it."""
    try:
        arrived = connection.recv(_TEXT_LEN_MAX, socket.MSG_PEEK)
        return connection.recv(arrived.find(b"\n") + 1 or len(arrived)) if arrived else b""
    except BlockingIOError:
        return b""


def bytes_missing(begun: bytes) -> int | None:
    """How many bytes are missing at least. None: the rest of the line, however long. Raises BadProxyHeader."""
    size = len(begun)
    if _SIGNATURE.startswith(begun[: len(_SIGNATURE)]) and size:
        if size < _FIXED_LEN:
            return _FIXED_LEN - size
        total = _FIXED_LEN + int.from_bytes(begun[14:16])
        if total > HEADER_LEN_MAX:
            raise BadProxyHeader(f"the header has {total} bytes; at most {HEADER_LEN_MAX} are accepted")
        return total - size
    if not _TEXT.startswith(begun[: len(_TEXT)]):
        raise BadProxyHeader("the connection does not begin with a PROXY header")
    if begun.endswith(b"\n"):
        return 0
    if size >= _TEXT_LEN_MAX:
        raise BadProxyHeader(f"the header has more than {_TEXT_LEN_MAX} bytes")
    return _TEXT_LEN_MIN - size if size < _TEXT_LEN_MIN else None


def source_of(header: bytes) -> str | None:
    """The client's address in a complete header; None if the proxy connects for itself. Raises BadProxyHeader."""
    if header.startswith(_TEXT):
        return _source_in_text(header)
    version, command = header[12] >> 4, header[12] & 0xF
    if version != 2 or command > 1:
        raise BadProxyHeader(f"version {version}, command {command} is unknown")
    family = header[13]
    if command == 0 or family in _NO_ADDRESS:
        return None
    size = _ADDRESSES_LEN.get(family)
    if size is None:
        raise BadProxyHeader(f"the address family {family:#04x} is not TCP over IPv4 or IPv6")
    if len(header) < _FIXED_LEN + size:
        raise BadProxyHeader("the addresses are incomplete")
    source = header[_FIXED_LEN:]
    return normal_address(str(IPv6Address(source[:16]) if size > 12 else IPv4Address(source[:4])))


def _source_in_text(header: bytes) -> str | None:
    if header.startswith(b"PROXY UNKNOWN") and header.endswith(b"\r\n") and header[13:14] in (b" ", b"\r"):
        return None
    found = _TEXT_HEADER.fullmatch(header)
    if found is None:
        raise BadProxyHeader("the header is not 'PROXY TCP4|TCP6 SOURCE DESTINATION PORT PORT'")
    kind = IPv4Address if found[1] == b"4" else IPv6Address
    try:
        source, _ = (kind(text.decode()) for text in found.group(2, 3))
    except AddressValueError:
        raise BadProxyHeader("the header has an invalid address") from None
    if any(int(port) > 65_535 for port in found.group(4, 5)):
        raise BadProxyHeader("the header has an invalid port")
    return normal_address(str(source))
