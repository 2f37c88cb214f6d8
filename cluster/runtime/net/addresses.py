"""Network addresses of processes: parsing, formatting, and the address book by process name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.names import NAME_LEN_MAX
from cluster.runtime.net.handshake import ADDRESSES_EACH_MAX
from cluster.runtime.net.wire import ADDRESSES_MAX, Addresses

if TYPE_CHECKING:
    from collections.abc import Iterable

ADDRESS_LEN_MAX = 256


class BadAddress(ValueError):
    """The text is not an address."""


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`, `1.2.3.4:port` or `[::1]:port`."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535 or (":" in host and not bracketed):
        raise BadAddress(f"{text[:ADDRESS_LEN_MAX]!r} is not an address; write host:port or [IPv6]:port")
    host = host[1:-1] if bracketed else host
    if not host or len(text) > ADDRESS_LEN_MAX:
        raise BadAddress(f"{text[:ADDRESS_LEN_MAX]!r} is not an address: the host is missing, or the text is too long")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class AddressBook:
    """Maps names to addresses. What a process reports about itself overrides reports of others."""

    __slots__ = ("_first_hand", "_forgotten", "_known", "own_name")

    def __init__(self, own_name: str) -> None:
        self.own_name = own_name
        self._known: dict[str, tuple[str, ...]] = {}
        self._first_hand: set[str] = set()
        self._forgotten: dict[str, tuple[str, ...]] = {}  # last known; peers may still report these

    def __getitem__(self, name: str) -> tuple[str, ...]:
        return self._known.get(name, ())

    @property
    def names(self) -> list[str]:
        return list(self._known)

    @property
    def addresses(self) -> list[str]:
        """The addresses of all known processes."""
        return [address for addresses in self._known.values() for address in addresses]

    def learn_own_report(self, name: str, addresses: Iterable[str]) -> bool:
        """Store the addresses that a process reported about itself; returns whether they are new."""
        self._first_hand.add(name)
        self._forgotten.pop(name, None)
        return self._put(name, addresses)

    def learn(self, said: Addresses) -> bool:
        """Store addresses that a peer reported about other processes; returns whether any is new."""
        news = False
        for name, addresses in said.of[:ADDRESSES_MAX]:
            if name not in self._first_hand and name != self.own_name and self._forgotten.get(name) != addresses:
                news = self._put(name, addresses) or news
        return news

    def lost(self, name: str) -> None:
        """The process is unreachable: from now on accept reports of others about it."""
        self._first_hand.discard(name)

    def forget(self, name: str) -> None:
        """Drop the process until it reports its address itself, or others report a new one."""
        addresses = self._known.pop(name, None)
        if addresses is not None:
            self._forgotten[name] = addresses
            if len(self._forgotten) > ADDRESSES_MAX:
                del self._forgotten[next(iter(self._forgotten))]
        self._first_hand.discard(name)

    def all(self, own: tuple[str, ...]) -> Addresses:
        return Addresses(((self.own_name, own), *sorted(self._known.items())[: ADDRESSES_MAX - 1]))

    def _put(self, name: str, addresses: Iterable[str]) -> bool:
        usable = tuple(address for address in list(addresses)[:ADDRESSES_EACH_MAX] if _is_usable(address))
        if not usable or not 0 < len(name) <= NAME_LEN_MAX or self._known.get(name) == usable:
            return False
        if name not in self._known and len(self._known) >= ADDRESSES_MAX:
            return False
        self._known[name] = usable
        return True


def _is_usable(address: str) -> bool:
    try:
        return parse_address(address)[1] > 0
    except BadAddress:
        return False
