"""Header fields of forwarded messages: removes hop-by-hop fields, adds Via, Forwarded, X-Request-Id. Pure.

From: RFC 9110 section 7.6, RFC 7239.
Hop-by-hop fields are the fixed ones and those that Connection lists. Content-Length and Transfer-Encoding are never
copied: the sender frames the message anew. Via names the intermediary, Forwarded the client. Names and values are bytes
as on the wire, so that a value passes unchanged whatever its encoding is.
"""

from __future__ import annotations

import functools
import ipaddress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

Field = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
DROPPED = HOP_BY_HOP | {b"content-length"}  # also if written with '_', which some servers read as '-'
NEVER_NAMED = frozenset({b"host", b"content-length", b"via", b"forwarded"})  # not to be removed by Connection
_REWRITTEN = frozenset({b"host", b"expect", b"forwarded", b"x-request-id"})
_SPECIAL = DROPPED | _REWRITTEN | {b"via", b"max-forwards"}


class OutgoingFields(NamedTuple):
    """The fields of a forwarded request that follow from its head alone."""

    lines: bytes  # without Host, Forwarded and X-Request-Id
    forwarded: bytes  # earlier elements of Forwarded
    is_loop: bool  # this node has forwarded the message before


def outgoing_fields(fields: Iterable[Field], *, me: bytes, version: bytes) -> OutgoingFields:
    """Remove hop-by-hop fields and framing, extend Via, lower Max-Forwards. ``version``: of HTTP, such as 1.1."""
    kept: list[tuple[bytes, bytes]] = []  # name in lower case, line
    via: list[bytes] = []
    forwarded: list[bytes] = []
    forwards: list[bytes] = []
    named: set[bytes] = set()
    for name, value in fields:
        lower = name.lower()
        if lower not in _SPECIAL:
            if b"_" not in lower or lower.replace(b"_", b"-") not in DROPPED:
                kept.append((lower, b"%b: %b\r\n" % (name, value)))
        elif lower == b"connection":
            named.update(word.strip().lower() for word in value.split(b","))
        elif lower == b"via":
            via.append(value)
        elif lower == b"forwarded":
            forwarded.append(value)
        elif lower == b"max-forwards":
            forwards.append(value)
    lines = [line for lower, line in kept if lower not in named] if named else [line for _, line in kept]
    is_loop = any(me in hop.split()[1:2] for value in via for hop in value.split(b","))
    lines.append(b"Via: %b\r\n" % b", ".join([*via, version + b" " + me]))
    if len(forwards) == 1 and forwards[0].isdigit() and len(forwards[0]) < 10:
        # RFC 9110 section 7.6.2; the stages respond themselves if it is 0
        lines.append(b"Max-Forwards: %d\r\n" % max(0, int(forwards[0]) - 1))
    return OutgoingFields(b"".join(lines), b"".join(value + b", " for value in forwarded), is_loop)


@functools.lru_cache(maxsize=4096)
def forwarded_element(client: str, host: str, proto: str) -> bytes:
    """The element of Forwarded that this node adds."""
    return f"for={_node(client)};host={_quoted(host)};proto={proto}".encode()


def _node(client: str) -> str:
    try:
        address = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return "unknown"
    return f'"[{address}]"' if address.version == 6 else str(address)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
