"""Resolves target names to addresses, and guards against loads on other people's machines."""

from __future__ import annotations

import contextlib
import re
import socket
from typing import TYPE_CHECKING

from loadgen.errors import UsageError
from loadgen.send.targets import Target, is_loopback, split_address

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROBE_S = 1.0


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


def _that_answers(addresses: Sequence[str], port: int) -> str:
    """The first address of a host that takes connections; the first at all if none does."""
    if len(addresses) > 1:
        for address in addresses:
            with contextlib.suppress(OSError), socket.create_connection((address, port), _PROBE_S):
                return address
    return addresses[0]
