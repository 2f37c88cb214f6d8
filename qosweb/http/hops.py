"""What a message's fields become when it is passed on (RFC 9110 section 7.6, RFC 7239). Pure.

Fields that are for one connection end here: those that Connection names, and those that always are. How a message is
framed is said anew by whoever sends it on, from what was read: Content-Length and Transfer-Encoding of the message
that came are never copied. Via tells who passed it on, Forwarded for whom.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Fields = list[tuple[str, str]]

OF_ONE_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
    }
)
_OF_FRAMING = frozenset({"content-length"})
_NEVER_NAMED = frozenset({"host", "content-length", "via", "forwarded"})  # what no client can have taken away
_TOLD_ANEW = frozenset({"host", "expect", "via", "forwarded"})


def passed_on(fields: Iterable[tuple[str, str]]) -> Fields:
    """The fields without those of one hop, and without framing."""
    fields = list(fields)
    named = {
        word.strip().lower() for name, value in fields if name.lower() == "connection" for word in value.split(",")
    }
    dropped = OF_ONE_HOP | _OF_FRAMING | (named - _NEVER_NAMED)
    return [(name, value) for name, value in fields if name.lower() not in dropped]


def request_fields(
    fields: Iterable[tuple[str, str]], *, host: str, client: str, proto: str, me: str, version: str
) -> Fields:
    """The fields of a request as they go on. ``version`` is that of the request, such as 1.1."""
    fields = list(fields)
    kept = [(name, value) for name, value in passed_on(fields) if name.lower() not in _TOLD_ANEW]
    via = [value for name, value in fields if name.lower() == "via"]
    forwarded = [value for name, value in fields if name.lower() == "forwarded"]
    return [
        ("Host", host),
        *kept,
        ("Via", ", ".join([*via, f"{version} {me}"])),
        ("Forwarded", ", ".join([*forwarded, _forwarded(client, host, proto)])),
    ]


def response_fields(fields: Iterable[tuple[str, str]], *, me: str, version: str) -> Fields:
    """The fields of an answer as they go on."""
    fields = list(fields)
    via = [value for name, value in fields if name.lower() == "via"]
    kept = [(name, value) for name, value in passed_on(fields) if name.lower() != "via"]
    return [*kept, ("Via", ", ".join([*via, f"{version} {me}"]))]


def has_passed(fields: Iterable[tuple[str, str]], me: str) -> bool:
    """Whether ``me`` has passed it on before: it goes in a circle."""
    return any(me in hop.split()[1:2] for name, value in fields if name.lower() == "via" for hop in value.split(","))


def _forwarded(client: str, host: str, proto: str) -> str:
    return f"for={_node(client)};host={_quoted(host)};proto={proto}"


def _node(client: str) -> str:
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return "unknown"
    return f'"[{address}]"' if address.version == 6 else str(address)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
