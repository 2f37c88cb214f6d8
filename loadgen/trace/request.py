"""A request of a trace: its fields and their validation. Pure."""

from __future__ import annotations

import math
import re

import msgspec

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_PATH = re.compile(r"/[\x21-\x7e]*")
_ABSOLUTE = re.compile(r"https?://([A-Za-z0-9._-]+(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?)(/[\x21-\x7e]*)?")
_FIELD_VALUE = re.compile(r"[\x20-\x7e\x80-\xff\t]*")
URL_LEN_MAX = 16_384
BODY_MAX = 16 << 20
BODY_NAME_LEN_MAX = 4096
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})  # these have one, if only of no bytes
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})
CLASS_LEN_MAX = 200
_FRAMING = frozenset({"host", "connection", "content-length", "transfer-encoding", "upgrade", "expect"})


class TraceRequest(msgspec.Struct, frozen=True, gc=False):
    """``t`` is the second, from the start of the trace, at which the request is due.

    ``url`` is a path, sent to whichever target is chosen, or an absolute address, whose host is then sent as ``Host``.
    ``body`` is a number, of bytes that are made up, or the name of a file that is sent.
    """

    t: float
    url: str
    method: str = "GET"
    class_name: str = msgspec.field(default="", name="class")
    headers: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    body: int | str | msgspec.UnsetType = msgspec.UNSET


def fault_in(request: TraceRequest) -> str | None:
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
    return None if request.body is msgspec.UNSET else fault_in_body(request.body, request.method)


def fault_in_body(body: int | str, method: str) -> str | None:
    if method in _WITHOUT_BODY:
        return f"a request with method {method} has no body; write POST, PUT or PATCH, or leave out the body"
    if isinstance(body, int):
        return None if 0 <= body <= BODY_MAX else f"a body of {body} bytes; it has to be from 0 to {BODY_MAX}"
    if not 0 < len(body) <= BODY_NAME_LEN_MAX or "\0" in body:
        return "body is neither a number of bytes nor the name of a file"
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
