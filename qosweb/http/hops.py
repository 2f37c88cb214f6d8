"""Header fields of forwarded messages: removes hop-by-hop fields, adds Via, Forwarded, X-Request-Id. Pure.

From: RFC 9110 section 7.6, RFC 7239.
Hop-by-hop fields are the fixed ones and those that Connection lists. Content-Length and Transfer-Encoding are never
copied: the sender frames the message anew. Via names the intermediary, Forwarded the client. Names and values are bytes
as on the wire, so that a value passes unchanged whatever its encoding is.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Field = tuple[bytes, bytes]
Fields = list[Field]

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
_REWRITTEN = frozenset({b"host", b"expect", b"via", b"forwarded", b"x-request-id", b"max-forwards"})


def end_to_end_fields(fields: Iterable[Field]) -> Fields:
    """The fields without hop-by-hop fields and without framing."""
    fields = list(fields)
    named = {
        word.strip().lower() for name, value in fields if name.lower() == b"connection" for word in value.split(b",")
    }
    named -= NEVER_NAMED
    return [
        (name, value)
        for name, value in fields
        if name.lower() not in named and name.lower().replace(b"_", b"-") not in DROPPED
    ]


def request_fields(
    fields: Iterable[Field], *, host: str, client: str, proto: str, me: bytes, version: bytes, rid: bytes
) -> Fields:
    """The fields of a forwarded request. ``version``: of HTTP, such as 1.1; ``rid`` identifies it in logs."""
    fields = list(fields)
    kept = [(name, value) for name, value in end_to_end_fields(fields) if name.lower() not in _REWRITTEN]
    via = [value for name, value in fields if name.lower() == b"via"]
    forwarded = [value for name, value in fields if name.lower() == b"forwarded"]
    return [
        (b"Host", host.encode()),
        *kept,
        (b"Via", b", ".join([*via, version + b" " + me])),
        (b"Forwarded", b", ".join([*forwarded, _forwarded(client, host, proto)])),
        *_fewer_forwards(fields),
        (b"X-Request-Id", rid),
    ]


def _fewer_forwards(fields: Fields) -> Fields:
    """Max-Forwards, lower by one. RFC 9110 section 7.6.2: the stages respond themselves if it is 0."""
    values = [value for name, value in fields if name.lower() == b"max-forwards"]
    if len(values) != 1 or not values[0].isdigit() or len(values[0]) > 9:
        return []
    return [(b"Max-Forwards", b"%d" % max(0, int(values[0]) - 1))]


def is_forwarding_loop(fields: Iterable[Field], me: bytes) -> bool:
    """Whether ``me`` has forwarded the message before: a forwarding loop."""
    return any(me in hop.split()[1:2] for name, value in fields if name.lower() == b"via" for hop in value.split(b","))


def _forwarded(client: str, host: str, proto: str) -> bytes:
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
