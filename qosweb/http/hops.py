"""Header fields of forwarded messages: removes hop-by-hop fields, adds Via and the fields about the client. Pure.

From: RFC 9110 section 7.6.
Hop-by-hop fields are the fixed ones and those that Connection lists. Content-Length and Transfer-Encoding are never
copied: the sender frames the message anew. Via names the intermediary, Forwarded and
X-Forwarded-For the client; see ``forwarded``. Names and values are bytes
as on the wire, so that a value passes unchanged whatever its encoding is.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, NamedTuple

from qosweb.http.forwarded import fields_for_next_server, is_about_client

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
NEVER_NAMED = frozenset({b"host", b"content-length", b"via"})  # not to be removed by Connection
_REWRITTEN = frozenset({b"host", b"expect", b"x-request-id"})
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_SPECIAL = DROPPED | _REWRITTEN | {b"via", b"max-forwards"}


class OutgoingFields(NamedTuple):
    """The fields of a forwarded request that follow from its head alone."""

    lines: bytes  # without Host, X-Request-Id and the fields about the client
    claims: tuple[Field, ...]  # fields about the client, as they came
    request_id: bytes  # a valid X-Request-Id; empty if there is none
    is_loop: bool  # this node has forwarded the message before


def outgoing_fields(fields: Iterable[Field], *, me: bytes, version: bytes) -> OutgoingFields:
    """Remove hop-by-hop fields and framing, extend Via, lower Max-Forwards. ``version``: of HTTP, such as 1.1."""
    kept: list[tuple[bytes, bytes]] = []  # name in lower case, line
    via: list[bytes] = []
    claims: list[Field] = []
    ids: list[bytes] = []
    forwards: list[bytes] = []
    named: set[bytes] = set()
    for name, value in fields:
        lower = name.lower()
        if lower not in _SPECIAL:
            if lower[:1] in b"fx" and _is_about_client(lower):
                claims.append((name, value))
            elif b"_" not in lower or lower.replace(b"_", b"-") not in DROPPED:
                kept.append((lower, b"%b: %b\r\n" % (name, value)))
        elif lower == b"connection":
            named.update(word.strip().lower() for word in value.split(b","))
        elif lower == b"via":
            via.append(value)
        elif lower == b"x-request-id":
            ids.append(value)
        elif lower == b"max-forwards":
            forwards.append(value)
    lines = [line for lower, line in kept if lower not in named] if named else [line for _, line in kept]
    is_loop = any(me in hop.split()[1:2] for value in via for hop in value.split(b","))
    lines.append(b"Via: %b\r\n" % b", ".join([*via, version + b" " + me]))
    if len(forwards) == 1 and forwards[0].isdigit() and len(forwards[0]) < 10:
        # RFC 9110 section 7.6.2; the stages respond themselves if it is 0
        lines.append(b"Max-Forwards: %d\r\n" % max(0, int(forwards[0]) - 1))
    request_id = ids[0] if len(ids) == 1 and _REQUEST_ID.fullmatch(ids[0]) else b""
    return OutgoingFields(b"".join(lines), tuple(claims), request_id, is_loop)


def _is_about_client(lower: bytes) -> bool:
    return is_about_client(lower.decode("latin-1"))


@functools.lru_cache(maxsize=4096)
def client_lines(claims: tuple[Field, ...], peer: str, host: str, proto: str, *, is_trusted: bool) -> bytes:
    """The field lines about the client. ``claims`` are those of ``peer``, which count only if it is trusted."""
    fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in claims]
    written = fields_for_next_server(fields, peer=peer, host=host, proto=proto, is_trusted=is_trusted)
    return "".join(f"{name}: {value}\r\n" for name, value in written).encode("latin-1")
