"""Header fields of forwarded requests: removes hop-by-hop fields, adds Via and the fields about the client. Pure.

From: RFC 9110 section 7.6.
Hop-by-hop fields are the fixed ones and those that Connection lists. Content-Length and Transfer-Encoding are never
copied: the sender frames the message anew. Via names the intermediary, Forwarded and X-Forwarded-For the client; see
``forwarded``. Names and values are bytes as on the wire, so that a value passes unchanged whatever its encoding is.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, NamedTuple

from qosweb.http.forwarded import fields_for_next_server
from qosweb.http.request_heads import CLIENT_CLAIM, MAX_FORWARDS, NAMED_FIELDS, REQUEST_ID, VIA

if TYPE_CHECKING:
    from qosweb.http.request_heads import RequestHead

Field = tuple[bytes, bytes]

_UNUSUAL = NAMED_FIELDS | VIA | MAX_FORWARDS | CLIENT_CLAIM | REQUEST_ID
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")


class OutgoingFields(NamedTuple):
    """The fields of a forwarded request that follow from its head alone."""

    lines: bytes  # without Host, X-Request-Id and the fields about the client
    claims: tuple[Field, ...]  # fields about the client, as they came
    request_id: bytes  # a valid X-Request-Id; empty if there is none
    is_loop: bool  # this node has forwarded the message before


def outgoing_fields(head: RequestHead, *, me: bytes) -> OutgoingFields:
    """Remove hop-by-hop fields and framing, extend Via, lower Max-Forwards. ``me``: the name of this node."""
    bits, fields = head.bits, head.fields
    lines = [field.wire for field in fields]
    if not bits & _UNUSUAL and head.is_http_1_1:
        lines.append(b"Via: 1.1 %b\r\n" % me)
        return OutgoingFields(b"".join(lines), (), b"", is_loop=False)
    if bits & NAMED_FIELDS:
        named = {
            word.strip().lower().decode("latin-1") for value in head.raw(NAMED_FIELDS) for word in value.split(b",")
        }
        lines = [field.wire for field in fields if field.name not in named]
    hops = [b"1.1 " + me if head.is_http_1_1 else b"1.0 " + me]
    is_loop = False
    if bits & VIA:
        earlier = list(head.raw(VIA))
        is_loop = any(me in hop.split()[1:2] for value in earlier for hop in value.split(b","))
        hops = [*earlier, *hops]
    lines.append(b"Via: %b\r\n" % b", ".join(hops))
    if bits & MAX_FORWARDS:
        left = next(head.raw(MAX_FORWARDS))
        if left.isdigit() and len(left) < 10:  # RFC 9110 section 7.6.2; the stages respond themselves if it is 0
            lines.append(b"Max-Forwards: %d\r\n" % max(0, int(left) - 1))
    claims: tuple[Field, ...] = ()
    if bits & CLIENT_CLAIM:
        claims = tuple((field.raw_name, field.value) for field in fields if field.bit == CLIENT_CLAIM)
    request_id = b""
    if bits & REQUEST_ID:
        ids = list(head.raw(REQUEST_ID))
        request_id = ids[0] if len(ids) == 1 and _REQUEST_ID.fullmatch(ids[0]) else b""
    return OutgoingFields(b"".join(lines), claims, request_id, is_loop)


@functools.lru_cache(maxsize=4096)
def client_lines(claims: tuple[Field, ...], peer: str, host: str, proto: str, *, is_trusted: bool) -> bytes:
    """The field lines about the client. ``claims`` are those of ``peer``, which count only if it is trusted."""
    fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in claims]
    written = fields_for_next_server(fields, peer=peer, host=host, proto=proto, is_trusted=is_trusted)
    return "".join(f"{name}: {value}\r\n" for name, value in written).encode("latin-1")
