"""Where the load goes: targets, the guard against loads on others' machines, and how requests spread over targets."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from itertools import accumulate
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from loadgen.errors import UsageError
from loadgen.units import parse_number

if TYPE_CHECKING:
    from collections.abc import Sequence

TARGETS_MAX = 100
_GOLDEN = 0.6180339887498949
_PROBE_S = 1.0


class Target(msgspec.Struct, frozen=True):
    """A server: ``host`` is what was written, ``address`` what it means."""

    scheme: str
    host: str
    port: int
    address: str

    @property
    def authority(self) -> str:
        """As in the Host field: without the port where that is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}"


def split_address(url: str) -> tuple[str, str, int, str]:
    """Scheme, host, port, and the rest of an absolute http URL; ValueError says what is wrong with it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"'{url}' is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"'{url}' is not a URL such as http://127.0.0.1:8080")
    if parts.username is not None:
        raise ValueError(f"'{url}' has a user name, which is not supported")
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", parts.hostname):
        raise ValueError(f"'{url}': '{parts.hostname}' is not the name of a host")
    if port == 0:
        raise ValueError(f"'{url}': nobody listens on port 0")
    rest = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), rest


def parse_target(url: str, *, allow_remote: bool) -> Target:
    """A target as given on the command line."""
    if "//" not in url and re.match(r"[^/]+:[0-9]+/?$", url):
        url = f"http://{url}"
    try:
        scheme, host, port, rest = split_address(url)
    except ValueError as error:
        raise UsageError(f"--target {error}") from None
    if rest != "/":
        raise UsageError(f"--target '{url}': leave out '{rest}'; which pages are asked for is said by the trace")
    return resolve(scheme, host, port, allow_remote=allow_remote)


def resolve(scheme: str, host: str, port: int, *, allow_remote: bool) -> Target:
    """Find the address of a host; refuse one that is not this machine unless that is wanted."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--target: the host '{host}' is not known: {reason}") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not allow_remote and not all(is_loopback(address) for address in addresses):
        raise UsageError(
            f"--target: '{host}' is not this machine ({addresses[0]}); load is sent to other machines only with "
            f"--allow-remote, and only ever with the consent of whoever runs them"
        )
    return Target(scheme, host, port, _that_answers(addresses, port))


def is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _that_answers(addresses: Sequence[str], port: int) -> str:
    """The first address of a host that takes connections; the first at all if none does."""
    if len(addresses) > 1:
        for address in addresses:
            with contextlib.suppress(OSError), socket.create_connection((address, port), _PROBE_S):
                return address
    return addresses[0]


class Spread:
    """Which target a request goes to, by its number in the trace.

    The multiples of the golden ratio, modulo 1, are spread evenly over [0, 1), and so are those of every k-th number:
    a target gets its share of the requests to within a few, whatever pattern the trace has.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        total = sum(weights)
        self._bounds = [bound / total for bound in accumulate(weights)]
        self._bounds[-1] = 2.0  # beyond any rounding
        self._only = next((at for at, weight in enumerate(weights) if weight == total), -1)

    def target_of(self, number: int) -> int:
        if self._only >= 0:
            return self._only
        place = number * _GOLDEN % 1.0
        for at, bound in enumerate(self._bounds):
            if place < bound:
                return at
        raise AssertionError(place)


def parse_spread(text: str, count: int) -> list[float]:
    """Weights of targets: ``one`` (the first), ``even``, ``skewed[:S]`` (the n-th gets n^-S), or ``70,20,10``."""
    kind, _, given = text.partition(":")
    if kind == "one" and not given:
        return [1.0] + [0.0] * (count - 1)
    if kind == "even" and not given:
        return [1.0] * count
    if kind == "skewed":
        try:
            exponent = parse_number(given, "a number") if given or ":" in text else 1.0
        except ValueError:
            raise UsageError(
                f"--spread '{text}': write skewed or, for more or less of it, such as skewed:1.5"
            ) from None
        return [(at + 1) ** -min(exponent, 20.0) for at in range(count)]
    try:
        weights = [parse_number(part, "a number") for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--spread '{text}': write one, even, skewed, skewed:1.5, or a weight for each target such as 70,20,10"
        ) from None
    if len(weights) != count:
        raise UsageError(f"--spread '{text}': {len(weights)} weights for {count} targets; write one for each --target")
    if not any(weights):
        raise UsageError(f"--spread '{text}': at least one target needs a weight above 0")
    return weights
