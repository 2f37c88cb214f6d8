"""Header fields of forwarded messages: removes hop-by-hop fields, adds Via and the fields about the client. Pure.

From: RFC 9110 section 7.6.
Hop-by-hop fields are the fixed ones and those that Connection lists. Content-Length and Transfer-Encoding are never
copied: the sender frames the message anew. Via names the intermediary, Forwarded and X-Forwarded-For the client; see
``forwarded``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.http.forwarded import Fields as Fields
from qosweb.http.forwarded import fields_for_next_server, is_about_client

if TYPE_CHECKING:
    from collections.abc import Iterable

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
_NEVER_NAMED = frozenset({"host", "content-length", "via"})  # a client cannot remove them by Connection
_REWRITTEN = frozenset({"host", "expect", "via"})


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
    fields: Iterable[tuple[str, str]], *, host: str, peer: str, is_trusted: bool, proto: str, me: str, version: str
) -> Fields:
    """The fields of a forwarded request. ``version`` is the HTTP version of the request, such as 1.1.

    ``peer`` sent the request; ``is_trusted``: it may say for which client.
    """
    fields = list(fields)
    kept = [
        (name, value)
        for name, value in end_to_end_fields(fields)
        if name.lower() not in _REWRITTEN and not is_about_client(name)
    ]
    via = [value for name, value in fields if name.lower() == "via"]
    return [
        ("Host", host),
        *kept,
        ("Via", ", ".join([*via, f"{version} {me}"])),
        *fields_for_next_server(fields, peer=peer, host=host, proto=proto, is_trusted=is_trusted),
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
