"""Client address behind trusted proxies, and the header fields that carry it to the next server. Pure.

From: RFC 7239 (Forwarded); X-Forwarded-For is its de facto predecessor.
Each proxy appends the address that connected to it, so the last address of a list is the most recent one. The client is
the last address that is not in a trusted network: everything before it was written by somebody unknown. An element that
is not an address (``unknown``, ``_hidden``) ends the search: the proxy that wrote it counts as the client.

A proxy that writes one of the two fields often passes on the other one as the client sent it. So if both are present
and disagree, neither is believed: the proxy that connected counts as the client.

A malformed Forwarded counts as absent and is not passed on: an open quote in it would swallow the element that follows.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Fields = list[tuple[str, str]]
Network = IPv4Network | IPv6Network

CACHE_MAX = 4096  # addresses

_PAIR = re.compile(
    r"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+)="
    r"(?:(?P<token>[!#$%&'*+.^_`|~0-9A-Za-z-]+)"
    r'|"(?P<quoted>(?:[\t !#-\[\]-~\x80-\U0010ffff]|\\[\t -~\x80-\U0010ffff])*)")'
)
_SEPARATOR = re.compile(r"[ \t]*([,;])[ \t]*")
_PORT = re.compile(r"(?::(?:[0-9]{1,5}|_[0-9A-Za-z._-]+))?")
_MAPPED = "::ffff:"
_OURS = ("forwarded", "x-forwarded-for")  # a trusted proxy's values are extended
_PROTO, _HOST = "x-forwarded-proto", "x-forwarded-host"  # a trusted proxy's values are kept


class TrustedNetworks:
    """The networks whose addresses are proxies that report clients correctly."""

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        self._networks = tuple(networks)
        self._known: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: str) -> bool:
        if not self._networks:
            return False
        known = self._known.get(address)
        if known is None:
            if len(self._known) >= CACHE_MAX:
                self._known.clear()
            known = self._known[address] = self._is_inside(address)
        return known

    def _is_inside(self, address: str) -> bool:
        normal = normal_address(address)
        if normal is None:
            return False
        parsed = ip_address(normal)
        return any(parsed in network for network in self._networks if network.version == parsed.version)

    def client_of(self, peer: str, forwarded_for: Sequence[str], forwarded: Sequence[str]) -> str:
        """The client of a request from ``peer`` with these lines of X-Forwarded-For and Forwarded."""
        if peer not in self or not (forwarded_for or forwarded):
            return peer
        chains = (_read_forwarded_for(forwarded_for), _read_forwarded(forwarded))
        claimed = {self._last_untrusted(peer, chain) for chain in chains if chain}
        return claimed.pop() if len(claimed) == 1 else peer

    def _last_untrusted(self, peer: str, chain: list[str | None]) -> str:
        client = peer
        for address in reversed(chain):
            if address is None or client not in self:
                break
            client = address
        return client


def normal_address(text: str) -> str | None:
    """An IP address in its normal form, without port, brackets and zone; None if ``text`` is not one."""
    host, port = text, ""
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or ":" not in host:
            return None
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        port = ":" + port
    if not _PORT.fullmatch(port):
        return None
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def peer_address(address: str) -> str:
    """The address of a peer as its socket has it: an IPv4 client of an IPv6 socket has an IPv4 address."""
    return address[len(_MAPPED) :] if address.startswith(_MAPPED) and "." in address else address


def is_about_client(name: str) -> bool:
    """Whether a header field claims who the client is: only a trusted proxy may send it.

    Names with '_' count too: some servers read it as '-'.
    """
    name = name.lower().replace("_", "-")
    return name == "forwarded" or name == "x-real-ip" or name.startswith("x-forwarded-")


def fields_for_next_server(
    fields: Iterable[tuple[str, str]], *, peer: str, host: str, proto: str, is_trusted: bool
) -> Fields:
    """The fields about the client in a forwarded request. ``fields`` are those of the request as it came from ``peer``.

    Those of a trusted peer are extended by ``peer`` or kept, those of any other peer are dropped.
    """
    lines: dict[str, list[str]] = {}
    kept: Fields = []
    for name, value in fields if is_trusted else ():
        lower = name.lower()
        if "_" in name or not is_about_client(name):
            continue
        lines.setdefault(lower, []).append(value)
        if lower not in _OURS:
            kept.append((name, value))
    earlier = lines.get("forwarded", [])
    if _read_pairs(earlier) is None:
        earlier = []
    own = normal_address(peer)
    element = f"for={_quoted_address(own)};host={_quoted(host)};proto={proto}"
    written = [
        ("Forwarded", ", ".join([*earlier, element])),
        ("X-Forwarded-For", ", ".join([*lines.get("x-forwarded-for", []), own or "unknown"])),
    ]
    if _HOST not in lines:
        written.append(("X-Forwarded-Host", host))
    if _PROTO not in lines:
        written.append(("X-Forwarded-Proto", proto))
    return [*kept, *written]


def _read_forwarded_for(lines: Sequence[str]) -> list[str | None]:
    elements = (element.strip(" \t") for line in lines for element in line.split(","))
    return [normal_address(element) for element in elements if element]


def _read_forwarded(lines: Sequence[str]) -> list[str | None]:
    """The addresses; none if the field is malformed, or has no parameter ``for``."""
    elements = _read_pairs(lines) or []
    if not any("for" in element for element in elements):
        return []
    return [normal_address(element.get("for", "")) for element in elements]


def _read_pairs(lines: Sequence[str]) -> list[dict[str, str]] | None:
    """The elements of Forwarded, each with its parameters; None if the field is malformed.

    Departs: white space around ';' is accepted.
    """
    text = ", ".join(lines).strip(" \t")
    elements: list[dict[str, str]] = [{}]
    at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is not None:
            name = pair["name"].lower()
            if name in elements[-1]:
                return None
            quoted = pair["quoted"]
            elements[-1][name] = pair["token"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            at = pair.end()
            if at == len(text):
                break
        separator = _SEPARATOR.match(text, at)
        if separator is None:
            return None
        if separator[1] == ",":
            elements.append({})
        at = separator.end()
    return [element for element in elements if element]


def _quoted_address(address: str | None) -> str:
    if address is None:
        return "unknown"
    return f'"[{address}]"' if ":" in address else address


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
