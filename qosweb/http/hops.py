"""Header fields of forwarded messages: removes hop-by-hop fields, adds Via and Forwarded. Pure.

From: RFC 9110 section 7.6, RFC 7239.
Hop-by-hop fields are the fixed ones and those that Connection lists. Content-Length and Transfer-Encoding are never
copied: the sender frames the message anew. Via names the intermediary, Forwarded the client.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Fields = list[tuple[str, str]]

HOP_BY_HOP = frozenset(
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
_DROPPED = HOP_BY_HOP | {"content-length"}  # also if written with '_', which some servers read as '-'
_NEVER_NAMED = frozenset({"host", "content-length", "via", "forwarded"})  # a client cannot remove them by Connection
_REWRITTEN = frozenset({"host", "expect", "via", "forwarded"})


def end_to_end_fields(fields: Iterable[tuple[str, str]]) -> Fields:
    """The fields without hop-by-hop fields and without framing."""
    fields = list(fields)
    named = {
        word.strip().lower() for name, value in fields if name.lower() == "connection" for word in value.split(",")
    }
    named -= _NEVER_NAMED
    return [
        (name, value)
        for name, value in fields
        if name.lower() not in named and name.lower().replace("_", "-") not in _DROPPED
    ]


def request_fields(
    fields: Iterable[tuple[str, str]], *, host: str, client: str, proto: str, me: str, version: str
) -> Fields:
    """The fields of a forwarded request. ``version`` is the HTTP version of the request, such as 1.1."""
    fields = list(fields)
    kept = [(name, value) for name, value in end_to_end_fields(fields) if name.lower() not in _REWRITTEN]
    via = [value for name, value in fields if name.lower() == "via"]
    forwarded = [value for name, value in fields if name.lower() == "forwarded"]
    return [
        ("Host", host),
        *kept,
        ("Via", ", ".join([*via, f"{version} {me}"])),
        ("Forwarded", ", ".join([*forwarded, _forwarded(client, host, proto)])),
    ]


def response_fields(fields: Iterable[tuple[str, str]], *, me: str, version: str) -> Fields:
    """The fields of a forwarded response."""
    fields = list(fields)
    via = [value for name, value in fields if name.lower() == "via"]
    kept = [(name, value) for name, value in end_to_end_fields(fields) if name.lower() != "via"]
    return [*kept, ("Via", ", ".join([*via, f"{version} {me}"]))]


def is_forwarding_loop(fields: Iterable[tuple[str, str]], me: str) -> bool:
    """Whether ``me`` has forwarded the message before: a forwarding loop."""
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
