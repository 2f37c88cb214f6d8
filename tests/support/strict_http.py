"""A second reading of HTTP/1.1 requests, written apart from the server: strict, and simple enough to check by eye."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.([0-9])")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_TEXT = rb"[\t\x20-\x7e\x80-\xff]*"
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;" + _TEXT + rb")?")


class StrictRequest(NamedTuple):
    method: bytes
    target: bytes
    body: bytes
    fields: tuple[tuple[bytes, bytes], ...]  # names in lower case


class Ambiguous(Exception):
    """Two servers could read these bytes differently."""


def read_request(data: bytes) -> tuple[StrictRequest, bytes] | None:
    """The first request and the bytes after it; None if it is incomplete. Raises Ambiguous."""
    while data.startswith(b"\r\n"):  # RFC 9112 section 2.2
        data = data[2:]
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    line, *lines = head.split(b"\r\n")
    found = _LINE.fullmatch(line)
    if found is None:
        raise Ambiguous(line)
    fields = []
    for one in lines:
        field = _FIELD.fullmatch(one)
        if field is None:
            raise Ambiguous(one)
        fields.append((field[1].lower(), field[2].strip(b" \t")))
    lengths = [value for name, value in fields if name == b"content-length"]
    codings = [value for name, value in fields if name == b"transfer-encoding"]
    if len(lengths) + len(codings) > 1 or any(not value.isdigit() for value in lengths):
        raise Ambiguous(head)
    if codings and (codings[0].lower() != b"chunked" or found[3] == b"0"):
        raise Ambiguous(head)
    if codings:
        body = _read_chunks(rest)
        if body is None:
            return None
        content, rest = body
    else:
        size = int(lengths[0]) if lengths else 0
        if len(rest) < size:
            return None
        content, rest = rest[:size], rest[size:]
    return StrictRequest(found[1], found[2], content, tuple(fields)), rest


def _read_chunks(data: bytes) -> tuple[bytes, bytes] | None:
    content = b""
    while True:
        line, end, data = data.partition(b"\r\n")
        if not end:
            return None
        found = _SIZE.fullmatch(line)
        if found is None:
            raise Ambiguous(line)
        size = int(found[1], 16)
        if not size:
            break
        if len(data) < size + 2:
            return None
        if data[size : size + 2] != b"\r\n":
            raise Ambiguous(data[size : size + 2])
        content, data = content + data[:size], data[size + 2 :]
    while True:  # trailers
        line, end, data = data.partition(b"\r\n")
        if not end:
            return None
        if not line:
            return content, data
        if _FIELD.fullmatch(line) is None:
            raise Ambiguous(line)


def read_all(data: bytes) -> list[StrictRequest]:
    """The requests that nobody can read differently, up to the first that is ambiguous or incomplete."""
    found = []
    try:
        while data and (one := read_request(data)) is not None:
            request, data = one
            found.append(request)
    except Ambiguous:
        pass
    return found
