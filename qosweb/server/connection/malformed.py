"""Error responses to malformed requests (400, 431, 501, 505). Pure."""

import re

from aiohttp.http import HttpProcessingError, HttpVersion
from aiohttp.http_exceptions import BadHttpMethod, LineTooLong

from qosweb.server.request.answers import Answer, explain

_METHOD = re.compile(rb"(?:\r\n)*[!#$%&'*+.^_`|~0-9A-Za-z-]{1,40} [/*hH]")

_REQUEST_LINE = re.compile(rb"(?:\r\n)*[!#$%&'*+.^_`|~0-9A-Za-z-]+ [^ \t\r\n]+ HTTP/[0-9]\.[0-9]\r\n")


_LATER_MINOR = re.compile(rb"((?:\r\n)*[!#$%&'*+.^_`|~0-9A-Za-z-]+ [^ \t\r\n]+ HTTP/1\.)[2-9]")


def as_http_1_1(begun: bytes) -> bytes | None:
    """``begun``, the beginning of a head, with HTTP/1.1 for a later minor version; None if it has no such version.

    RFC 9110 section 2.5: such a message is processed in the highest minor version that is known.
    """
    found = _LATER_MINOR.match(begun)
    return None if found is None else found[1] + b"1" + begun[found.end() :]


def is_request_line(head: bytes) -> bool:
    """Whether ``head`` begins with a request line that strictly follows RFC 9112 section 3."""
    return _REQUEST_LINE.match(head) is not None


def bad_request_line(version: HttpVersion) -> Answer:
    """The response to a request line that the parser accepts and RFC 9112 does not."""
    if version.major != 1:
        return _closing(505, "This server supports HTTP/1.1 and HTTP/1.0.")
    return _closing(400, "The request line must be a method, a target and a version, separated by single spaces.")


def is_unknown_version(error: HttpProcessingError) -> bool:
    return "Invalid HTTP version" in str(error)


def diagnose(error: HttpProcessingError, piece: bytes) -> Answer:
    """The response to ``piece``, which the parser rejected with ``error``. The connection closes after it."""
    description = str(error.message or error).partition("\n")[0].strip(" :.")[:120]
    if isinstance(error, BadHttpMethod):
        if piece.startswith(b"\x16\x03"):
            return _closing(400, "The client sent TLS to a port for plain HTTP.")
        if _METHOD.match(piece):  # RFC 9110 section 9.1: an unknown method
            return _closing(501, "The method is unknown; this server supports GET, HEAD and OPTIONS.")
        return _closing(400, "The request does not begin with a method.")
    if is_unknown_version(error) or description == "Pause on PRI/Upgrade":  # HTTP/2's preface
        return _closing(505, "This server supports HTTP/1.1 and HTTP/1.0.")
    if isinstance(error, LineTooLong) or "Too many headers" in description:
        return _closing(431, "The request head has too many fields, or a field that is too large.")
    return _closing(400, f"The request is malformed: {description}.")


def _closing(status: int, reason: str) -> Answer:
    return explain(status, reason, must_close=True)
