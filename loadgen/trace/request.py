"""One line of a trace, and what is right about it. Pure."""

from __future__ import annotations

import math
import re

import msgspec

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_PATH = re.compile(r"/[\x21-\x7e]*")
_ABSOLUTE = re.compile(r"https?://([A-Za-z0-9._-]+(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?)(/[\x21-\x7e]*)?")
_FIELD_VALUE = re.compile(r"[\x20-\x7e\x80-\xff\t]*")
URL_LEN_MAX = 16_384
CLASS_LEN_MAX = 200
_FRAMING = frozenset({"host", "connection", "content-length", "transfer-encoding", "upgrade", "expect"})


class Request(msgspec.Struct, frozen=True, gc=False):
    """``t`` is the second, from the start of the trace, at which the request is due.

    ``url`` is a path, sent to whichever target is chosen, or an absolute address, whose host is then sent as ``Host``.
    """

    t: float
    url: str
    method: str = "GET"
    class_name: str = msgspec.field(default="", name="class")
    headers: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


def fault_in(request: Request) -> str | None:
    """What is wrong with a request, in words; None if nothing is."""
    if not (math.isfinite(request.t) and request.t >= 0):
        return f"t is {request.t}; it has to be a number of seconds from the start, 0 or more"
    if not TOKEN.fullmatch(request.method):
        return f"method {request.method!r} is not the name of an HTTP method, such as GET"
    if request.method in ("CONNECT", "TRACE"):
        return f"method {request.method} is not supported; write GET, HEAD, OPTIONS, POST, PUT, PATCH or DELETE"
    if fault := fault_in_url(request.url):
        return fault
    if len(request.class_name) > CLASS_LEN_MAX or not request.class_name.isprintable():
        return f"class has to be at most {CLASS_LEN_MAX} printable characters"
    if request.headers is not msgspec.UNSET:
        for name, value in request.headers.items():
            if fault := fault_in_field(name, value):
                return fault
    return None


def fault_in_url(url: str) -> str | None:
    if len(url) > URL_LEN_MAX:
        return f"url has {len(url)} characters; at most {URL_LEN_MAX} are sent"
    if not (_PATH.fullmatch(url) or _ABSOLUTE.fullmatch(url)):
        return f"url {url[:100]!r} is neither a path such as /page.html nor http://host/path (other characters as %XX)"
    if "#" in url:
        return f"url {url[:100]!r} has a fragment (#...), which is never sent to a server; leave it out"
    return None


def fault_in_field(name: str, value: str) -> str | None:
    if not TOKEN.fullmatch(name):
        return f"header {name[:100]!r} is not the name of a field, such as User-Agent"
    if name.lower() in _FRAMING:
        hint = "; write url as http://host/path" if name.lower() == "host" else ""
        return f"header {name!r} is set by the load generator itself{hint}"
    if not _FIELD_VALUE.fullmatch(value):
        return f"header {name!r} has a value with control characters or beyond Latin-1"
    return None


def split_url(url: str) -> tuple[str, str]:
    """Host (empty if ``url`` is a path) and path with query."""
    if url.startswith("/"):
        return "", url
    match = _ABSOLUTE.fullmatch(url)
    assert match is not None, url
    return match[1], match[2] or "/"
