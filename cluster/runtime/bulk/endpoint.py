"""UDP socket of the multicast transport: unicast copies to every peer, or one datagram to a multicast group."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from cluster.runtime.net.addresses import parse_address
from cluster.runtime.net.transport import CannotListen

if TYPE_CHECKING:
    from collections.abc import Callable

RECEIVE_BUFFER_LEN = 16 * 1024 * 1024
SEND_BUFFER_LEN = 1024 * 1024  # what the network does not take stays with the producer, which then waits
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # of Linux; the socket module does not have them
UDP_SEGMENT, UDP_GRO = 103, 104
SEGMENTS_MAX = 64  # datagrams of one system call
RUN_LEN_MAX = 63_000  # their bytes
QUEUE_MAX = 4096  # runs that wait for the socket
ADDRESSES_MAX = 1024  # parsed addresses that are remembered
READS_MAX = 16  # system calls before the loop gets to other work
READ_LEN = 65_536
KERNEL_LEN = 4608  # memory that the kernel counts for one datagram, at most
_SEGMENT, _GRO = struct.Struct("@H"), struct.Struct("@i")
_GRO_SPACE = socket.CMSG_SPACE(_GRO.size)

Address = tuple[str, int] | tuple[str, int, int, int]  # the longer one, with a scope, is of IPv6


class MulticastGroup(msgspec.Struct, frozen=True):
    """Where to multicast: a group address such as 239.1.2.3:7000 or [ff02::1:2]:7000, and a network interface.

    Without an interface the routing table chooses one. A group of IPv6 needs one.
    """

    address: str
    interface: str = ""

    @classmethod
    def parse(cls, text: str) -> MulticastGroup:
        """Read GROUP:PORT or GROUP:PORT%INTERFACE. Raises ValueError."""
        address, _, interface = text.partition("%")
        group = cls(address, interface)
        group.validate()
        return group

    def __str__(self) -> str:
        return f"{self.address}%{self.interface}" if self.interface else self.address

    @property
    def index(self) -> int:
        return socket.if_nametoindex(self.interface) if self.interface else 0

    def where(self) -> Address:
        """The address of the group as a socket takes it. A group of IPv6 belongs to an interface (its scope)."""
        host, port = parse_address(self.address)
        is_four = _family(host) == socket.AF_INET
        return (host, port) if is_four else (host, port, 0, self.index)

    def validate(self) -> None:
        """Raises ValueError."""
        host, _ = parse_address(self.address)
        family = _family(host)
        first = socket.inet_pton(family, host)[0]
        if (first >> 4 != 14) if family == socket.AF_INET else (first != 255):
            raise ValueError(f"{host} is not a multicast address; use 224.0.0.0/4 or ff00::/8")
        if not self.interface and family == socket.AF_INET6:
            raise ValueError(f"a group of IPv6 needs a network interface: {self.address}%eth0, for example")
        try:
            _ = self.index
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


class DatagramEndpoint:
    """Receives datagrams at the address of the process, and from the multicast group if there is one.

    Runs of datagrams of one length leave in one system call (UDP_SEGMENT) and arrive so (UDP_GRO).
    When a socket takes no more, datagrams wait in a bounded queue, and `is_blocked` says so.
    """

    def __init__(self, on_datagrams: Callable[[list[bytes]], None], on_writable: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_datagrams = on_datagrams
        self._on_writable = on_writable
        self._sockets: list[socket.socket] = []
        self._group: str | None = None
        self._queue: deque[tuple[list[bytes], Address]] = deque()
        self._can_segment = True
        self._parsed: dict[str, Address] = {}
        self.is_blocked = False
        self.sent_bytes = 0
        self.dropped = 0  # datagrams that neither the socket nor the queue took

    @classmethod
    async def listen(
        cls,
        address: str,
        multicast: MulticastGroup | None,
        on_datagrams: Callable[[list[bytes]], None],
        on_writable: Callable[[], None],
    ) -> DatagramEndpoint:
        """Raises CannotListen."""
        endpoint = cls(on_datagrams, on_writable)
        try:
            endpoint._add(_own_socket(address, multicast))
            if multicast is not None:
                endpoint._group = multicast.address
                endpoint._parsed[multicast.address] = multicast.where()
                endpoint._add(_group_socket(multicast))
        except OSError as error:
            endpoint.close()
            raise CannotListen(f"no UDP socket at {address}: {error.strerror or error}") from None
        return endpoint

    def _add(self, sock: socket.socket) -> None:
        self._sockets.append(sock)
        self._loop.add_reader(sock, self._read, sock)

    @property
    def room(self) -> int:
        """Datagrams for which the socket with the smallest buffer has room."""
        lengths = [sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for sock in self._sockets]
        return min(lengths) // KERNEL_LEN

    # ---- send

    def send(self, datagrams: list[bytes], addresses: list[str]) -> None:
        """A copy of each datagram to each address. What the socket cannot take is lost, like any other datagram."""
        size = sum(map(len, datagrams))
        for address in addresses:
            self.sent_bytes += size
            for run in _runs(datagrams, SEGMENTS_MAX if self._can_segment else 1):
                self._queue.append((run, self._parse(address)))
        if not self.is_blocked:
            self._flush()
        while len(self._queue) > QUEUE_MAX:
            self.dropped += len(self._queue.pop()[0])

    def multicast(self, datagrams: list[bytes], addresses: list[str]) -> None:
        """One datagram to the multicast group, or a copy to each address if there is none."""
        self.send(datagrams, addresses if self._group is None else [self._group])

    def _parse(self, address: str) -> Address:
        found = self._parsed.get(address)
        if found is None:
            if len(self._parsed) >= ADDRESSES_MAX:
                self._parsed = {one: at for one, at in self._parsed.items() if one == self._group}
            found = self._parsed[address] = parse_address(address)
        return found

    def _flush(self) -> None:
        while self._queue:
            run, address = self._queue[0]
            try:
                self._send_run(run, address)
            except BlockingIOError:
                self._set_blocked(is_blocked=True)
                return
            except OSError as error:
                if len(run) > 1 and error.errno in (errno.EINVAL, errno.EMSGSIZE, errno.EIO, errno.EOPNOTSUPP):
                    self._can_segment = False
                    self._queue.popleft()
                    self._queue.extendleft(([one], address) for one in reversed(run))
                    continue
                self.dropped += len(run)  # no route, for example
            self._queue.popleft()
        self._set_blocked(is_blocked=False)

    def _send_run(self, run: list[bytes], address: Address) -> None:
        ancillary = [(socket.IPPROTO_UDP, UDP_SEGMENT, _SEGMENT.pack(len(run[0])))] if len(run) > 1 else []
        self._sockets[0].sendmsg(run, ancillary, 0, address)

    def _set_blocked(self, *, is_blocked: bool) -> None:
        if is_blocked != self.is_blocked:
            self.is_blocked = is_blocked
            if is_blocked:
                self._loop.add_writer(self._sockets[0], self._write)
            else:
                self._loop.remove_writer(self._sockets[0])

    def _write(self) -> None:
        self._flush()
        if not self.is_blocked:
            self._on_writable()

    # ---- receive

    def _read(self, sock: socket.socket) -> None:
        """Takes the datagrams that have arrived, up to a limit, so that the loop also gets to other work."""
        found: list[bytes] = []
        for _ in range(READS_MAX):
            try:
                data, ancillary, _, _ = sock.recvmsg(READ_LEN, _GRO_SPACE)
            except BlockingIOError:
                break
            except OSError:  # such as an ICMP error for an earlier datagram
                continue
            if ancillary and len(ancillary[0][2]) == _GRO.size:
                (length,) = _GRO.unpack(ancillary[0][2])
                found.extend(data[at : at + length] for at in range(0, len(data), length or 1))
            else:
                found.append(data)
        if found:
            self._on_datagrams(found)

    def close(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock)
            self._loop.remove_writer(sock)
            sock.close()
        self._sockets.clear()
        self._queue.clear()


def _runs(datagrams: list[bytes], segments_max: int) -> list[list[bytes]]:
    """Splits datagrams into runs that one system call can send: all of one length, but the last may be shorter."""
    runs: list[list[bytes]] = []
    run: list[bytes] = []
    for datagram in datagrams:
        room = min(segments_max, RUN_LEN_MAX // len(run[0])) if run else 0
        if len(run) < room and len(datagram) <= len(run[0]) == len(run[-1]):
            run.append(datagram)
        else:
            run = [datagram]
            runs.append(run)
    return runs


def _new_socket(family: socket.AddressFamily) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setblocking(False)
    for forced, plain in ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        length = RECEIVE_BUFFER_LEN if plain == socket.SO_RCVBUF else SEND_BUFFER_LEN
        try:
            sock.setsockopt(socket.SOL_SOCKET, forced, length)  # beyond net.core.rmem_max: needs CAP_NET_ADMIN
        except PermissionError:
            sock.setsockopt(socket.SOL_SOCKET, plain, length)
    with suppress(OSError):  # since Linux 5.0
        sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    return sock


def _own_socket(address: str, multicast: MulticastGroup | None) -> socket.socket:
    host, port = parse_address(address)
    family = _family(host)
    sock = _new_socket(family)
    sock.bind((host, port))
    if multicast is not None:
        index = multicast.index
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        else:
            request = struct.pack("4s4si", bytes(4), bytes(4), index)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
    return sock


def _group_socket(multicast: MulticastGroup) -> socket.socket:
    host, _ = parse_address(multicast.address)
    family = _family(host)
    sock = _new_socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(multicast.where())
    index = multicast.index
    group = socket.inet_pton(family, host)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group + struct.pack("@I", index))
    else:
        request = struct.pack("4s4si", group, bytes(4), index)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
    return sock
