"""From request target to canonical path: the only way by which a name from the wire gets to the file system.

From: RFC 9112 section 3.2 (forms of the target), RFC 9110 section 4.2 (http URIs), RFC 3986 section 2.1
(escapes) and 3.3 (paths).
Departs: dot segments, escaped slashes and backslashes are refused, not resolved: no client of good will sends
them, and whoever resolves them must do so as everyone else in the chain does. Empty segments vanish.
Characters that RFC 3986 wants escaped but that cannot mislead anyone (`|`, `{`, `"`) pass.

The path is decoded exactly once, and to bytes: a segment is the name of a file as os.fsdecode gives it where
names are UTF-8, so that a name which is not UTF-8 can be asked for, and overlong forms stay what they are.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

from qosweb.http.hosts import parse_host

_ABSOLUTE_FORM = re.compile(r"https?://([^/?]*)(.*)", re.ASCII | re.IGNORECASE)

_NOT_VISIBLE_ASCII = re.compile(r"[^\x21-\x7e]")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPED_CONTROL = re.compile(r"%(?:[01][0-9A-Fa-f]|7[Ff])")
_ESCAPED_SEPARATOR = re.compile(r"%(?:2[Ff]|5[Cc])")

_SEGMENT_SAFE = "!$&'()*+,;=:@"  # RFC 3986: pchar, beyond what quote() never escapes

# NAME_MAX and PATH_MAX: beyond them no file can have the name.
_SEGMENT_BYTES_MAX = 255
_PATH_BYTES_MAX = 4096


class BadTarget(Exception):
    """A target that names nothing here: 400 if malformed or deceptive, 404 if no such file is public."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """What a request asks for. No segment is empty, '.', '..' or hidden, or holds a slash or a backslash."""

    segments: tuple[str, ...]
    is_directory: bool
    query: str  # as sent, without the '?'
    authority: str | None  # of an absolute-form target, in lower case

    @property
    def path(self) -> str:
        """The canonical path, decoded."""
        return self._joined(self.segments)

    @property
    def escaped_path(self) -> str:
        """The canonical path as it may stand in a Location field: one slash first, never two."""
        return self._joined(tuple(quote(segment, _SEGMENT_SAFE, errors="surrogateescape") for segment in self.segments))

    @property
    def origin_form(self) -> str:
        """The escaped path with the query: what another server is asked for."""
        return f"{self.escaped_path}?{self.query}" if self.query else self.escaped_path

    def _joined(self, segments: tuple[str, ...]) -> str:
        if not segments:
            return "/"
        return f"/{'/'.join(segments)}{'/' if self.is_directory else ''}"


def parse_target(raw: str) -> RequestTarget:
    """Read a target in origin-form or absolute-form; raises BadTarget.

    Whatever deserves a 400 is found before anything that deserves a 404.
    """
    if _NOT_VISIBLE_ASCII.search(raw):
        raise BadTarget(400, "character that is no visible ASCII")
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
    _refuse_too_long(path, segments)
    return RequestTarget(segments, not segments or path.endswith("/"), query, authority)


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
    # A character takes at most four bytes: most paths are too short for a closer look.
    if len(path) * 4 <= _SEGMENT_BYTES_MAX:
        return
    lengths = [len(segment.encode("utf-8", "surrogateescape")) for segment in segments]
    if any(length > _SEGMENT_BYTES_MAX for length in lengths):
        raise BadTarget(404, "segment longer than any file name")
    if sum(lengths) + len(lengths) + path.endswith("/") > _PATH_BYTES_MAX:
        raise BadTarget(404, "path longer than any file path")
