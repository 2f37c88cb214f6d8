"""Resolves target names to addresses, and guards against loads on other people's machines."""

from __future__ import annotations

import contextlib
import re
import socket
from typing import TYPE_CHECKING

from loadgen.send.targets import Target, split_address
from qosweb.errors import UsageError
from qosweb.units import is_loopback

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROBE_S = 1.0


def parse_target(url: str, *, allow_remote: bool) -> Target:
    """Parse a target from the command line."""
    if "//" not in url and re.match(r"[^/]+:[0-9]+/?$", url):
        url = f"http://{url}"
    try:
        scheme, host, port, rest = split_address(url)
    except ValueError as error:
        raise UsageError(f"--target {error}") from None
    if rest != "/":
        raise UsageError(f"--target '{url}': leave out '{rest}'; the pages to request are in the trace")
    return resolve(scheme, host, port, allow_remote=allow_remote)


def resolve(scheme: str, host: str, port: int, *, allow_remote: bool) -> Target:
    """Resolve a host; reject other machines unless ``allow_remote`` is set."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--target: the host '{host}' cannot be resolved: {reason}") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not allow_remote and not all(is_loopback(address) for address in addresses):
        raise UsageError(
            f"--target: '{host}' is not this machine ({addresses[0]}); to send load to another machine, get the "
            f"consent of its operator and add --allow-remote"
        )
    return Target(scheme, host, port, _reachable_address(addresses, port))


def _reachable_address(addresses: Sequence[str], port: int) -> str:
    """The first address that accepts connections; the first address if none does."""
    if len(addresses) > 1:
        for address in addresses:
            with contextlib.suppress(OSError), socket.create_connection((address, port), _PROBE_S):
                return address
    return addresses[0]
