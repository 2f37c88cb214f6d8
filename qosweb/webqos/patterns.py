"""Page patterns: parses ``<...>`` into host and path segments.

A first segment that looks like a host (a dot, a port, ``localhost`` or ``[::1]``) and is followed by '/' is the host.
A pattern that starts with '/' has the host of ``set site``, or any host. ``*`` matches any text within a segment.
``**``, alone between slashes, matches any number of segments. A pattern without wildcards covers its page and
everything below it, and, if its last segment has no dot, the page with any extension. A directory stands for its page
``index.html``.
"""

import re
from urllib.parse import unquote_to_bytes

import msgspec

from qosweb.webqos.values import BadValue

INDEX = "index.html"
LENGTH_MAX = 1024
SEGMENTS_MAX = 64

_HOSTLIKE = re.compile(
    r"(?:[A-Za-z0-9_*-]+(?:\.[A-Za-z0-9_*-]+)+|localhost|[A-Za-z0-9_*-]+(?=:[0-9])|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
)
_BAD = re.compile(r"[\x00-\x20\x7f\\?#]")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPED_SEPARATOR = re.compile(r"%(?:2[Ff]|5[Cc])")


class PagePattern(msgspec.Struct, frozen=True):
    """``host`` is None for any host. It may contain ``*``, and has a port only if the pattern has one."""

    host: str | None
    segments: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        """No wildcard in the path."""
        return not any("*" in segment for segment in self.segments)

    def __str__(self) -> str:
        path = "/" + "/".join(self.segments)
        return path if self.host is None else self.host + path


def parse_pattern(text: str, site: str | None) -> PagePattern:
    """Parse the text between the brackets. ``site`` is the default host. Raises BadValue."""
    if not text:
        raise BadValue("the pattern is empty", "every page is 'all'; the rest is 'default'")
    if len(text) > LENGTH_MAX:
        raise BadValue(f"the pattern is longer than {LENGTH_MAX} characters")
    if (bad := _BAD.search(text)) is not None:
        if bad[0] == "?":
            raise BadValue("a pattern names paths, and '?' is not part of a path", "leave out the query")
        raise BadValue(f"a pattern cannot hold {bad[0]!r}")
    if "://" in text:
        raise BadValue("a pattern has no scheme", f"write <{text.partition('://')[2]}>")
    first, slash, rest = text.partition("/")
    host = site
    path = text
    if slash and first and _HOSTLIKE.fullmatch(first):
        host, path = first.lower(), rest
    elif ":" in first and slash and first:
        raise BadValue(f"'{first}' is not a host name", "such as www.commerce.com:8080")
    segments = tuple(_segment(part) for part in path.strip("/").split("/")) if path.strip("/") else ()
    if len(segments) > SEGMENTS_MAX:
        raise BadValue(f"the pattern has more than {SEGMENTS_MAX} segments")
    if path.endswith("/") and segments and not any("*" in segment for segment in segments):
        segments = (*segments, "**")  # a directory: its content, but not a page of that name with an extension
    return PagePattern(host, _merged(segments))


def _segment(part: str) -> str:
    if not part:
        raise BadValue("the pattern has an empty segment", "is there one '/' too many?")
    if part in (".", ".."):
        raise BadValue(f"no page's address has the segment '{part}'", "write the path as clients request it")
    if "**" in part and part != "**":
        raise BadValue("'**' stands alone between slashes", "within a segment, one '*' is enough")
    if "%" in part:
        if _BROKEN_ESCAPE.search(part):
            raise BadValue("'%' is not followed by two hexadecimal digits", "a '%' itself is written %25")
        if _ESCAPED_SEPARATOR.search(part):
            raise BadValue("no page's address has an escaped slash or backslash")
        try:
            part = unquote_to_bytes(part).decode("utf-8")
        except UnicodeDecodeError:
            raise BadValue("the escaped bytes are not UTF-8") from None
    return part


def _merged(segments: tuple[str, ...]) -> tuple[str, ...]:
    """Replace ``**/**`` by ``**``."""
    return tuple(part for at, part in enumerate(segments) if part != "**" or not at or segments[at - 1] != "**")


def never_served(pattern: PagePattern) -> str:
    """The reason why no request can reach such a page; empty if requests can."""
    for place, segment in enumerate(pattern.segments):
        if segment.startswith(".") and (place or segment != ".well-known"):
            return f"hidden files such as '{segment}' are never served"
    return ""


def without_port(host: str) -> str:
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def path_segments(path: str) -> list[str]:
    """The segments of a canonical, decoded path. A directory becomes its index page."""
    segments = path.split("/")
    del segments[0]
    if segments and not segments[-1]:
        segments[-1] = INDEX
    return segments
