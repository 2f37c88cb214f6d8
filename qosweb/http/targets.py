"""Parses request targets into canonical paths. Names from the wire reach the file system only through this module.

From: RFC 9112 section 3.2 (forms of the target), RFC 9110 section 4.2 (http URIs), RFC 3986 section 2.1
(escapes) and 3.3 (paths).
A target that was accepted is passed on to other servers as it came (``origin_form``): its escapes and empty segments
may be signed. Its canonical path (escapes decoded, empty segments dropped) names its file and decides its class.
Departs: dot segments, escaped slashes and backslashes are rejected, not resolved. Legitimate clients do not send them,
and resolving them is safe only if all servers in the chain do it alike. Empty segments are dropped. Characters that
RFC 3986 requires to be escaped but that are harmless (`|`, `{`, `"`) are accepted.

The path is decoded exactly once, and to bytes. A segment is a file name as os.fsdecode returns it on a UTF-8 file
system, so that names which are not UTF-8 can be requested, and overlong forms are not normalised.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import quote, unquote_to_bytes

from qosweb.http.hosts import parse_host

_ABSOLUTE_FORM = re.compile(r"https?://([^/?]*)(.*)", re.ASCII | re.IGNORECASE)

_NOT_VISIBLE_ASCII = re.compile(r"[^\x21-\x7e]")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPED_CONTROL = re.compile(r"%(?:[01][0-9A-Fa-f]|7[Ff])")
_ESCAPED_SEPARATOR = re.compile(r"%(?:2[Ff]|5[Cc])")

_NEEDS_NO_ESCAPE = re.compile(r"[A-Za-z0-9._~/-]*")
_SEGMENT_SAFE = "!$&'()*+,;=:@"  # RFC 3986: pchar, beyond what quote() never escapes

# NAME_MAX and PATH_MAX: no file has a longer name.
_SEGMENT_BYTES_MAX = 255
_PATH_BYTES_MAX = 4096


class BadTarget(Exception):
    """An invalid target. ``status`` is 400 if it is malformed or deceptive, 404 if such a file is never public."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """A parsed target. No segment is empty, '.', '..' or hidden, or contains a slash or a backslash."""

    segments: tuple[str, ...]
    is_directory: bool
    query: str  # as sent, without the '?'
    authority: str | None  # of an absolute-form target, in lower case
    origin_form: str = field(compare=False)  # path and query exactly as they came: what another server is asked for

    @property
    def path(self) -> str:
        """The canonical path, decoded."""
        return self._joined(self.segments)

    @property
    def escaped_path(self) -> str:
        """The canonical path for a Location field: it starts with one slash, never two."""
        path = self.path
        if _NEEDS_NO_ESCAPE.fullmatch(path):
            return path
        return self._joined(tuple(quote(segment, _SEGMENT_SAFE, errors="surrogateescape") for segment in self.segments))

    def _joined(self, segments: tuple[str, ...]) -> str:
        if not segments:
            return "/"
        return f"/{'/'.join(segments)}{'/' if self.is_directory else ''}"


def parse_target(raw: str, *, must_be_file: bool = True) -> RequestTarget:
    """Parse a target in origin-form or absolute-form. Raises BadTarget; 400 takes precedence over 404.

    ``must_be_file``: a path that is longer than any file's is refused. An upstream server may know longer ones.
    """
    if _NOT_VISIBLE_ASCII.search(raw):
        raise BadTarget(400, "character that is not visible ASCII")
    if "#" in raw:
        raise BadTarget(400, "fragment")

    authority = None
    rest = raw
    if not raw.startswith("/"):
        authority, rest = _split_absolute(raw)
    path, _, query = rest.partition("?")
    if "\\" in path:
        raise BadTarget(400, "backslash")
    if "%" in path:
        path = _unescape(path)

    segments = tuple(segment for segment in path.split("/") if segment)
    if "." in segments or ".." in segments:
        raise BadTarget(400, "dot segment")
    _refuse_hidden(segments)
    if must_be_file:
        _refuse_too_long(path, segments)
    sent = rest if rest.startswith("/") else f"/{rest}"
    return RequestTarget(segments, not segments or path.endswith("/"), query, authority, sent)


def _split_absolute(raw: str) -> tuple[str, str]:
    found = _ABSOLUTE_FORM.fullmatch(raw)
    if found is None:
        raise BadTarget(400, "neither origin-form nor absolute-form with http or https")
    authority, rest = found.groups()
    if "@" in authority:
        raise BadTarget(400, "userinfo")
    host = parse_host(authority)
    if not host:
        raise BadTarget(400, "invalid authority")
    return host, rest


def _unescape(path: str) -> str:
    if _BROKEN_ESCAPE.search(path):
        raise BadTarget(400, "invalid percent escape")
    if _ESCAPED_CONTROL.search(path):
        raise BadTarget(400, "escaped control character")
    if _ESCAPED_SEPARATOR.search(path):
        raise BadTarget(400, "escaped slash or backslash")
    return unquote_to_bytes(path).decode("utf-8", "surrogateescape")


def _refuse_hidden(segments: tuple[str, ...]) -> None:
    for place, segment in enumerate(segments):
        if segment[0] == "." and (place or segment != ".well-known"):
            raise BadTarget(404, "hidden file")


def _refuse_too_long(path: str, segments: tuple[str, ...]) -> None:
    # A character takes at most four bytes, so most paths need no exact computation.
    if len(path) * 4 <= _SEGMENT_BYTES_MAX:
        return
    lengths = [len(segment.encode("utf-8", "surrogateescape")) for segment in segments]
    if any(length > _SEGMENT_BYTES_MAX for length in lengths):
        raise BadTarget(404, "segment longer than any file name")
    if sum(lengths) + len(lengths) + path.endswith("/") > _PATH_BYTES_MAX:
        raise BadTarget(404, "path longer than any file path")
