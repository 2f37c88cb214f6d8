"""HTTP responses (`Answer`): a serialised head without Date and Connection, and a body in memory or on disk.

The head is serialised as soon as its parts are known: once per page for a plain GET, once per request otherwise.
The connection adds the last lines: Date, Connection and those of the QoS class.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from typing import NamedTuple

from qosweb.server.files.files import FileVersion

SERVER_LINE = b"Server: qosweb\r\n"
CLOSE = b"Connection: close\r\n"
KEEP_ALIVE = b"Connection: keep-alive\r\n"
NO_CONNECTION_LINE = b""
NOSNIFF = ("X-Content-Type-Options", "nosniff")
HTML = "text/html; charset=utf-8"

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_STATUS_LINES[413] = "HTTP/1.1 413 Content Too Large\r\n"
_STATUS_LINES[414] = "HTTP/1.1 414 URI Too Long\r\n"
_STATUS_LINES[416] = "HTTP/1.1 416 Range Not Satisfiable\r\n"
ERROR_STATUSES = tuple(status for status in _STATUS_LINES if status >= 400)


@dataclass(frozen=True, slots=True)
class FileSpan:
    """``length`` bytes at ``offset`` of the file ``name``, valid while the file is the version ``identity``."""

    name: bytes
    identity: FileVersion
    offset: int
    length: int


Segment = bytes | FileSpan


class ErrorText(NamedTuple):
    """Text of an error response: a sentence, and the header fields besides those of its body."""

    reason: str
    fields: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    head: bytes  # status line and fields, without Date, Connection and the empty line
    body: tuple[Segment, ...]
    must_close: bool = False
    error: ErrorText | None = None  # if its body may have another form; see `error_pages`

    @property
    def length(self) -> int:
        return sum(len(part) if isinstance(part, bytes) else part.length for part in self.body)

    @property
    def from_disk(self) -> bool:
        return any(isinstance(part, FileSpan) for part in self.body)

    def without_body(self) -> "Answer":
        """The response to HEAD: the same head without a body."""
        return Answer(self.status, self.head, (), self.must_close, self.error)


def serialise_head(status: int, fields: Sequence[tuple[str, str]]) -> bytes:
    lines = [_STATUS_LINES[status]]
    lines += [f"{name}: {value}\r\n" for name, value in fields]
    return "".join(lines).encode("latin-1") + SERVER_LINE


def explain(status: int, reason: str, fields: Sequence[tuple[str, str]] = (), *, must_close: bool = False) -> Answer:
    """A short HTML response that says what was wrong and, where it helps, what would be right."""
    title = f"{status} {phrase_of(status)}"
    body = (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f"<h1>{title}</h1>\n<p>{escape(reason)}\n</html>\n"
    ).encode()
    head = serialise_head(status, [*body_fields(status, HTML, len(body)), *fields])
    return Answer(status, head, (body,), must_close, ErrorText(reason, fields) if status >= 400 else None)


def phrase_of(status: int) -> str:
    return _STATUS_LINES[status][13:].strip()


def body_fields(status: int, media_type: str, length: int) -> list[tuple[str, str]]:
    """The fields of a short body. Errors are sent in several forms."""
    varies = [("Vary", "Accept")] if status >= 400 else []
    return [("Content-Type", media_type), ("Content-Length", str(length)), *varies, NOSNIFF]


def bodiless(status: int, fields: Sequence[tuple[str, str]]) -> Answer:
    """A response with status 204 or 304, which has no body by definition."""
    return Answer(status, serialise_head(status, fields), ())
