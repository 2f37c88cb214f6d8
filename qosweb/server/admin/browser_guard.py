"""Protects the admin port from web pages: DNS rebinding and cross-site request forgery. Pure.

A page that an operator has open in a browser can send requests to this machine. Three checks keep it out:

- Host (DNS rebinding): a page of evil.example is same-origin with the admin port once its DNS name resolves to this
  machine. Its requests still name evil.example as their host. Only IP addresses, localhost, the host of --admin and
  the names of --admin-host are accepted.
- Sec-Fetch-Site: requests of pages of another origin are refused, whatever their method.
- Changes: a request from a browser (it has Origin or Sec-Fetch-*) needs the field X-QoSweb-Admin, which a page of
  another origin cannot send without a CORS preflight, and must be of the same origin.

Commands such as curl send none of these fields and are only checked for their host.
Above: `admin`.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from qosweb.http.hosts import parse_host

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multidict import MultiMapping

CHANGE_FIELD = "X-QoSweb-Admin"
_READS = ("GET", "HEAD")


def normalise_name(name: str) -> str:
    """A host name as it is compared: in lower case, without the dot of the DNS root."""
    return name.lower().removesuffix(".")


class BrowserGuard:
    """Decides which requests to the admin port are refused."""

    def __init__(self, names: Iterable[str]) -> None:
        """`names` are the host names that are accepted besides localhost and IP addresses."""
        self._names = {"localhost", *map(normalise_name, names)}

    def refusal(self, method: str, headers: MultiMapping[str]) -> tuple[int, str] | None:
        """Status and text of the response if the request is refused, else None."""
        hosts = headers.getall("Host", [])
        if len(hosts) > 1 or (hosts and not self._is_accepted(hosts[0])):  # HTTP/1.0 has none; browsers send it
            return 421, (
                "this host name is not known here: use an IP address or localhost, "
                "or start the node with --admin-host NAME\n"
            )
        if headers.get("Sec-Fetch-Site", "").lower() in ("cross-site", "same-site"):
            return 403, "pages of other sites may not use the admin port\n"
        if method in _READS:
            return None
        origin = headers.get("Origin")
        if origin is not None and origin.partition("://")[2] != (hosts[0] if hosts else ""):
            return 403, "pages of other sites may not change anything here\n"
        is_browser = origin is not None or any(name.lower().startswith("sec-fetch-") for name in headers)
        if is_browser and CHANGE_FIELD not in headers:
            return 403, f"from a browser a change needs the header field '{CHANGE_FIELD}: 1'\n"
        return None

    def _is_accepted(self, host: str) -> bool:
        name = host_name(host)
        return name is not None and (_is_ip(name) or normalise_name(name) in self._names)


def host_name(host: str) -> str | None:
    """The name or address in a Host field, without port and brackets; None if the field is malformed or empty."""
    parsed = parse_host(host)
    if not parsed:
        return None
    if parsed.startswith("["):
        return parsed[1:].partition("]")[0]
    return parsed.partition(":")[0]


def _is_ip(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
