"""UDP socket of the multicast transport: unicast copies to every peer, or one datagram to a multicast group."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING

import msgspec

from cluster.runtime.net.addresses import parse_address
from cluster.runtime.net.transport import CannotListen

if TYPE_CHECKING:
    from collections.abc import Callable

SOCKET_BUFFER_LEN = 4 * 1024 * 1024


class MulticastGroup(msgspec.Struct, frozen=True):
    """Where to multicast: a group address such as 239.1.2.3:7000 or [ff02::1:2]:7000, and a network interface."""

    address: str
    interface: str

    def validate(self) -> None:
        """Raises ValueError."""
        host, _ = parse_address(self.address)
        family = _family(host)
        first = socket.inet_pton(family, host)[0]
        if (first >> 4 != 14) if family == socket.AF_INET else (first != 255):
            raise ValueError(f"{host} is not a multicast address; use 224.0.0.0/4 or ff00::/8")
        try:
            socket.if_nametoindex(self.interface)
        except OSError:
            names = ", ".join(name for _, name in socket.if_nameindex())
            raise ValueError(f"there is no network interface {self.interface!r}; there are {names}") from None


def _family(host: str) -> socket.AddressFamily:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return family
    raise ValueError(f"{host!r} is not an IP address: the multicast transport does not resolve names")


class DatagramEndpoint(asyncio.DatagramProtocol):
    """Receives datagrams at the address of the process, and from the multicast group if there is one."""

    def __init__(self, on_datagram: Callable[[bytes], None]) -> None:
        self._on_datagram = on_datagram
        self._transports: list[asyncio.DatagramTransport] = []
        self._group: str | None = None
        self.sent_bytes = 0

    @classmethod
    async def listen(
        cls, address: str, multicast: MulticastGroup | None, on_datagram: Callable[[bytes], None]
    ) -> DatagramEndpoint:
        """Raises CannotListen."""
        endpoint = cls(on_datagram)
        try:
            await endpoint._add(_own_socket(address, multicast))
            if multicast is not None:
                endpoint._group = multicast.address
                await endpoint._add(_group_socket(multicast))
        except OSError as error:
            endpoint.close()
            raise CannotListen(f"no UDP socket at {address}: {error.strerror or error}") from None
        return endpoint

    async def _add(self, sock: socket.socket) -> None:
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=sock)
        self._transports.append(transport)

    def send(self, datagram: bytes, addresses: list[str]) -> None:
        """A copy to each address. A datagram that the socket cannot take is lost, like any other."""
        for address in addresses:
            self.sent_bytes += len(datagram)
            self._transports[0].sendto(datagram, parse_address(address))

    def multicast(self, datagram: bytes, addresses: list[str]) -> None:
        """One datagram to the multicast group, or a copy to each address if there is none."""
        self.send(datagram, addresses if self._group is None else [self._group])

    def datagram_received(self, data: bytes, addr: tuple[object, ...]) -> None:  # noqa: ARG002
        self._on_datagram(data)

    def close(self) -> None:
        for transport in self._transports:
            transport.close()


def _new_socket(family: socket.AddressFamily) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BUFFER_LEN)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_LEN)
    return sock


def _own_socket(address: str, multicast: MulticastGroup | None) -> socket.socket:
    host, port = parse_address(address)
    family = _family(host)
    sock = _new_socket(family)
    sock.bind((host, port))
    if multicast is not None:
        index = socket.if_nametoindex(multicast.interface)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        else:
            request = struct.pack("4s4si", bytes(4), bytes(4), index)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
    return sock


def _group_socket(multicast: MulticastGroup) -> socket.socket:
    host, port = parse_address(multicast.address)
    family = _family(host)
    sock = _new_socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    index = socket.if_nametoindex(multicast.interface)
    group = socket.inet_pton(family, host)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group + struct.pack("@I", index))
    else:
        request = struct.pack("4s4si", group, bytes(4), index)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
    return sock
