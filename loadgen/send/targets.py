"""Targets: the addresses of the servers under load. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec


class Target(msgspec.Struct, frozen=True):
    """A server: ``host`` as written, ``address`` as resolved."""

    scheme: str
    host: str
    port: int
    address: str

    @property
    def authority(self) -> str:
        """As in the Host header: without the default port of the scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}"


def split_address(url: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and rest of an absolute http URL. The ValueError says what is wrong."""
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
        raise ValueError(f"'{url}': '{parts.hostname}' is not a host name")
    if port == 0:
        raise ValueError(f"'{url}': port 0 is not a valid port")
    rest = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), rest
