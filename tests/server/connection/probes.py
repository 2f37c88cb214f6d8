"""Requests that a server must reject, as data: request line, host and field lines.

Each is named by the section that it violates: RFC 9110 (semantics), RFC 9112 (HTTP/1.1), RFC 3986 (URI), RFC 6585
(431). ``probes_framing`` has bodies and smuggled requests; ``probes_accepted`` has unusual requests that are valid.
"""

from dataclasses import dataclass

GOOD = b"GET /good.html HTTP/1.1\r\nHost: localhost\r\n\r\n"
SMUGGLED = b"GET /smuggled.html HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass(frozen=True)
class Probe:
    """``before``: the statuses of good requests ahead of the bad one, which gets ``refused`` and a close."""

    section: str
    name: str
    data: bytes
    refused: int = 400
    before: tuple[int, ...] = ()
    is_head: bool = False

    @property
    def title(self) -> str:
        return f"{self.section} {self.name}"

    @property
    def refused_in_pieces(self) -> frozenset[int]:
        """An unknown method is rejected at its first wrong letter, perhaps before it is recognised as a method."""
        return frozenset({400, 501} if self.refused == 501 else {self.refused})


def line(request_line: bytes) -> bytes:
    """A request that is valid except for its request line."""
    return request_line + b"\r\nHost: localhost\r\n\r\n"


def target(text: bytes) -> bytes:
    return line(b"GET " + text + b" HTTP/1.1")


def fields(*lines: bytes) -> bytes:
    """A request that is valid except for its field lines; Host comes first."""
    return b"\r\n".join((b"GET /good.html HTTP/1.1", b"Host: localhost", *lines, b"", b""))


def host(*lines: bytes, request_line: bytes = b"GET /good.html HTTP/1.1") -> bytes:
    return b"\r\n".join((request_line, *lines, b"", b""))


REQUEST_LINES = (
    Probe("RFC 9112 2.2", "bare LF ends the request line", b"GET / HTTP/1.1\nHost: localhost\r\n\r\n"),
    Probe("RFC 9112 2.2", "bare LF throughout", b"GET / HTTP/1.1\nHost: localhost\n\n"),
    Probe("RFC 9112 2.2", "bare LF before the request line and throughout", b"\nGET / HTTP/1.1\nHost: a\n\n"),
    Probe("RFC 9112 2.2", "bare CR ends the request line", b"GET / HTTP/1.1\rHost: localhost\r\n\r\n"),
    Probe("RFC 9112 2.2", "CR CR LF ends the request line", b"GET / HTTP/1.1\r\r\nHost: localhost\r\n\r\n"),
    Probe("RFC 9112 2.2", "space before the first field", b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n"),
    Probe("RFC 9112 2.2", "tab before the first field", b"GET / HTTP/1.1\r\n\tX: y\r\nHost: localhost\r\n\r\n"),
    Probe("RFC 9112 2.2", "whitespace instead of a field", b"GET / HTTP/1.1\r\n \r\nHost: localhost\r\n\r\n"),
    Probe("RFC 9112 2.2", "response instead of a request", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    Probe("RFC 9112 2.2", "binary noise", bytes(range(128, 256)) + b"\r\n\r\n"),
    Probe("RFC 9112 2.2", "TLS ClientHello", bytes.fromhex("16030100c8010000c40303") + bytes(193) + b"\r\n\r\n"),
    Probe("RFC 9112 2.2", "SSH banner", b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    Probe("RFC 9112 2.2", "byte order mark", b"\xef\xbb\xbf" + GOOD),
    Probe("RFC 9112 2.2", "NUL first", b"\x00" + GOOD),
    Probe("RFC 9112 3", "two spaces before the target", line(b"GET  /good.html HTTP/1.1")),
    Probe("RFC 9112 3", "two spaces after the target", line(b"GET /good.html  HTTP/1.1")),
    Probe("RFC 9112 3", "tab before the target", line(b"GET\t/good.html HTTP/1.1")),
    Probe("RFC 9112 3", "tab after the target", line(b"GET /good.html\tHTTP/1.1")),
    Probe("RFC 9112 3", "vertical tab for a space", line(b"GET\x0b/good.html HTTP/1.1")),
    Probe("RFC 9112 3", "form feed after the target", line(b"GET /good.html\x0cHTTP/1.1")),
    Probe("RFC 9112 3", "no-break space for a space", line(b"GET /good.html\xa0HTTP/1.1")),
    Probe("RFC 9112 3", "no space before the target", line(b"GET/good.html HTTP/1.1")),
    Probe("RFC 9112 3", "no space before the version", line(b"GET /good.htmlHTTP/1.1"), 505),
    Probe("RFC 9112 3", "leading space", line(b" GET /good.html HTTP/1.1")),
    Probe("RFC 9112 3", "leading tab", line(b"\tGET /good.html HTTP/1.1")),
    Probe("RFC 9112 3", "trailing space", line(b"GET /good.html HTTP/1.1 ")),
    Probe("RFC 9112 3", "trailing tab", line(b"GET /good.html HTTP/1.1\t")),
    Probe("RFC 9112 3", "fourth word", line(b"GET /good.html HTTP/1.1 HTTP/1.1")),
    Probe("RFC 9112 3", "space within the target", target(b"/good .html")),
    Probe("RFC 9112 3", "second request on the line", target(b"/good.html HTTP/1.1 GET /smuggled.html")),
    Probe("RFC 9112 3", "request line only, of blanks", b"   \r\n\r\n"),
    Probe("RFC 9112 3", "request line of 9 KB", target(b"/" + b"a" * 9_000), 414),
    Probe("RFC 9110 9.1", "method in lower case", line(b"get /good.html HTTP/1.1"), 501),
    Probe("RFC 9110 9.1", "method in mixed case", line(b"Get /good.html HTTP/1.1"), 501),
    Probe("RFC 9110 9.1", "unknown method", line(b"BREW /good.html HTTP/1.1"), 501),
    Probe("RFC 9110 9.1", "known method with a tail", line(b"GETS /good.html HTTP/1.1"), 501),
    Probe("RFC 9110 9.1", "method with NUL", line(b"GE\x00T /good.html HTTP/1.1")),
    Probe("RFC 9110 9.1", "method with a control byte", line(b"G\x1fET /good.html HTTP/1.1")),
    Probe("RFC 9110 9.1", "method with DEL", line(b"GET\x7f /good.html HTTP/1.1")),
    Probe("RFC 9110 9.1", "method that is no token", line(b"G(E)T /good.html HTTP/1.1")),
    Probe("RFC 9110 9.1", "method in quotes", line(b'"GET" /good.html HTTP/1.1')),
    Probe("RFC 9110 9.1", "method not in ASCII", line(b"G\xc3\x8bT /good.html HTTP/1.1")),
    Probe("RFC 9110 9.1", "no method", line(b"/good.html HTTP/1.1")),
    Probe("RFC 9110 9.1", "method of 2000 letters", line(b"G" * 2_000 + b" / HTTP/1.1")),
    Probe("RFC 9112 2.3", "HTTP/0.9", line(b"GET /good.html HTTP/0.9"), 505),
    Probe("RFC 9112 2.3", "HTTP/0.9 without a version", b"GET /good.html\r\n\r\n", 505),
    Probe("RFC 9112 2.3", "HTTP/1.2 without Host", b"GET /good.html HTTP/1.2\r\n\r\n"),
    Probe("RFC 9112 2.3", "HTTP/1.2 with a bad field", line(b"GET /good.html HTTP/1.2")[:-2] + b"X : y\r\n\r\n"),
    Probe("RFC 9112 2.3", "HTTP/1.22", line(b"GET /good.html HTTP/1.22")),
    Probe("RFC 9112 2.3", "HTTP/1.2 and a fourth word", line(b"GET /good.html HTTP/1.2 x")),
    Probe("RFC 9112 2.3", "HTTP/0.2", line(b"GET /good.html HTTP/0.2"), 505),
    Probe("RFC 9112 2.3", "HTTP/2.2", line(b"GET /good.html HTTP/2.2"), 505),
    Probe("RFC 9112 2.3", "HTTP/2.0", line(b"GET /good.html HTTP/2.0"), 505),
    Probe("RFC 9112 2.3", "HTTP/3.0", line(b"GET /good.html HTTP/3.0"), 505),
    Probe("RFC 9112 2.3", "HTTP/2 without a minor", line(b"GET /good.html HTTP/2")),
    Probe("RFC 9112 2.3", "name in lower case", line(b"GET /good.html http/1.1")),
    Probe("RFC 9112 2.3", "leading zero", line(b"GET /good.html HTTP/01.1")),
    Probe("RFC 9112 2.3", "two digits", line(b"GET /good.html HTTP/1.10")),
    Probe("RFC 9112 2.3", "comma for the point", line(b"GET /good.html HTTP/1,1")),
    Probe("RFC 9112 2.3", "letters for digits", line(b"GET /good.html HTTP/x.y")),
    Probe("RFC 9112 2.3", "no minor version", line(b"GET /good.html HTTP/1.")),
    Probe("RFC 9112 2.3", "no slash", line(b"GET /good.html HTTP1.1")),
    Probe("RFC 9112 2.3", "negative version", line(b"GET /good.html HTTP/-1.1")),
    Probe("RFC 9112 2.3", "RTSP", line(b"GET /good.html RTSP/1.0")),
    Probe("RFC 9112 2.3", "RTSP with a version of ours", line(b"OPTIONS /good.html RTSP/1.1")),
    Probe("RFC 9112 2.3", "ICE", line(b"SOURCE /good.html ICE/1.0")),
    Probe("RFC 9113 3.4", "HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    Probe("RFC 9112 3.2", "empty target", b"GET  HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Probe("RFC 9112 3.2", "no target", b"GET HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Probe("RFC 9112 3.2", "relative target", target(b"good.html")),
    Probe("RFC 9112 3.2", "target of a query only", target(b"?a=b")),
    Probe("RFC 9112 3.2", "target with NUL", target(b"/good.html\x00")),
    Probe("RFC 9112 3.2", "target with a control byte", target(b"/good\x01.html")),
    Probe("RFC 9112 3.2", "target with bare CR", target(b"/good\r.html")),
    Probe("RFC 9112 3.2", "target with DEL", target(b"/good\x7f.html")),
    Probe("RFC 3986 3.5", "fragment", target(b"/good.html#top")),
    Probe("RFC 3986 2", "raw UTF-8", target(b"/caf\xc3\xa9.html")),
    Probe("RFC 3986 2", "raw Latin-1 in the query", target(b"/good.html?caf\xe9")),
    Probe("RFC 3986 2.1", "broken escape", target(b"/good%2.html")),
    Probe("RFC 3986 2.1", "escaped NUL", target(b"/good.html%00")),
    Probe("RFC 3986 2.1", "escaped line break", target(b"/good.html%0d%0aX:y")),
    Probe("RFC 3986 3.3", "dot segments", target(b"/a/../good.html")),
    Probe("RFC 3986 3.3", "escaped dot segments", target(b"/%2e%2e/good.html")),
    Probe("RFC 3986 3.3", "backslash", target(b"/a\\..\\good.html")),
    Probe("RFC 9112 3.2.1", "dot segments with OPTIONS", line(b"OPTIONS /../ HTTP/1.1")),
    Probe("RFC 9112 3.2.2", "scheme of another kind", target(b"ftp://localhost/good.html")),
    Probe("RFC 9112 3.2.2", "no authority", target(b"http:///good.html")),
    Probe("RFC 9112 3.2.2", "one slash", target(b"http:/localhost/good.html")),
    Probe("RFC 9112 3.2.2", "port out of range", target(b"http://localhost:99999/good.html")),
    Probe("RFC 9112 3.2.2", "two ports", target(b"http://localhost:80:80/good.html")),
    Probe("RFC 9112 3.2.2", "fragment", target(b"http://localhost/good.html#top")),
    Probe("RFC 9112 3.2.2", "broken IPv6 address", target(b"http://[::1/good.html")),
    Probe("RFC 9110 4.2.4", "userinfo", target(b"http://user:secret@localhost/good.html")),
    Probe("RFC 9110 7.4", "https on an insecure connection", target(b"https://localhost/good.html"), 421),
    Probe("RFC 9112 3.2.3", "authority-form with GET", target(b"localhost:80")),
    Probe("RFC 9112 3.2.4", "asterisk-form with GET", target(b"*")),
    Probe("RFC 9112 3.2.4", "asterisk with a tail", line(b"OPTIONS *x HTTP/1.1")),
)

HOSTS = (
    Probe("RFC 9112 3.2", "no Host", host()),
    Probe("RFC 9112 3.2", "no Host with absolute-form", host(request_line=b"GET http://localhost/ HTTP/1.1")),
    Probe("RFC 9112 3.2", "two equal Hosts", host(b"Host: localhost", b"Host: localhost")),
    Probe("RFC 9112 3.2", "two different Hosts", host(b"Host: localhost", b"Host: other")),
    Probe(
        "RFC 9112 3.2",
        "two Hosts with absolute-form",
        host(b"Host: a", b"Host: b", request_line=b"GET http://localhost/ HTTP/1.1"),
    ),
    Probe(
        "RFC 9112 3.2",
        "two Hosts in HTTP/1.0",
        host(b"Host: localhost", b"host: other", request_line=b"GET / HTTP/1.0"),
    ),
    Probe("RFC 9112 3.2", "invalid Host in HTTP/1.0", host(b"Host: a/b", request_line=b"GET / HTTP/1.0")),
    Probe(
        "RFC 9112 3.2",
        "invalid Host with absolute-form",
        host(b"Host: a b", request_line=b"GET http://localhost/ HTTP/1.1"),
    ),
    Probe("RFC 9112 3.2", "empty Host", host(b"Host:")),
    Probe("RFC 9112 3.2", "blank Host", host(b"Host: \t ")),
    Probe("RFC 9112 3.2", "empty Host in HTTP/1.0", host(b"Host:", request_line=b"GET /good.html HTTP/1.0")),
    Probe("RFC 9112 3.2", "empty Host with OPTIONS *", host(b"Host:", request_line=b"OPTIONS * HTTP/1.1")),
    Probe("RFC 9112 3.2", "port only", host(b"Host: :80")),
    Probe("RFC 9112 3.2", "empty Host, then another", host(b"Host:", b"Host: localhost")),
    Probe("RFC 9110 7.2", "two names in one Host", host(b"Host: localhost, other")),
    Probe("RFC 9110 7.2", "two names without a space", host(b"Host: localhost,other")),
    Probe("RFC 9110 7.2", "semicolon in Host", host(b"Host: localhost;other")),
    Probe("RFC 9110 7.2", "escape in Host", host(b"Host: local%20host")),
    Probe("RFC 9110 7.2", "dots only", host(b"Host: ..")),
    Probe("RFC 9110 7.2", "empty label", host(b"Host: a..b")),
    Probe("RFC 3986 3.2.2", "number out of range in an IPv4 address", host(b"Host: 127.0.0.256")),
    Probe("RFC 9110 7.2", "two names with a space", host(b"Host: localhost other")),
    Probe("RFC 9110 7.2", "URL for a Host", host(b"Host: http://localhost/")),
    Probe("RFC 9110 7.2", "path in Host", host(b"Host: localhost/../..")),
    Probe("RFC 9110 7.2", "query in Host", host(b"Host: localhost?a")),
    Probe("RFC 9110 7.2", "userinfo in Host", host(b"Host: user@localhost")),
    Probe("RFC 9110 7.2", "Host not in ASCII", host(b"Host: l\xc3\xb6calhost")),
    Probe("RFC 9110 7.2", "Host with a control byte", host(b"Host: local\x01host")),
    Probe("RFC 9110 7.2", "Host in quotes", host(b'Host: "localhost"')),
    Probe("RFC 3986 3.2.2", "broken escape in Host", host(b"Host: local%2host")),
    Probe("RFC 3986 3.2.2", "broken IPv6 address", host(b"Host: [::1")),
    Probe("RFC 3986 3.2.2", "IPv6 address without brackets", host(b"Host: ::1")),
    Probe("RFC 3986 3.2.3", "port of letters", host(b"Host: localhost:http")),
    Probe("RFC 3986 3.2.3", "port out of range", host(b"Host: localhost:65536")),
    Probe("RFC 3986 3.2.3", "negative port", host(b"Host: localhost:-1")),
    Probe("RFC 3986 3.2.3", "two ports", host(b"Host: localhost:80:80")),
)

FIELDS = (
    Probe("RFC 9112 5.1", "space before the colon", fields(b"X : y")),
    Probe("RFC 9112 5.1", "tab before the colon", fields(b"X\t: y")),
    Probe("RFC 9112 5.1", "space before the colon of Host", host(b"Host : localhost")),
    Probe("RFC 9112 5.2", "folded with a space", fields(b"X: a", b" b")),
    Probe("RFC 9112 5.2", "folded with a tab", fields(b"X: a", b"\tb")),
    Probe("RFC 9112 5.2", "folded Host", host(b"Host:", b" localhost")),
    Probe("RFC 9112 5.2", "fold of blanks only", fields(b"X: a", b"   ", b"Y: b")),
    Probe("RFC 9112 2.2", "bare CR in a value", fields(b"X: a\rb")),
    Probe("RFC 9112 2.2", "bare CR hides a field", fields(b"X: a\rTransfer-Encoding: chunked")),
    Probe("RFC 9112 2.2", "bare LF ends a field", fields(b"X: a\nY: b")),
    Probe("RFC 9112 2.2", "bare LF ends the head", b"GET / HTTP/1.1\r\nHost: localhost\r\n\n" + SMUGGLED),
    Probe("RFC 9112 2.2", "LF CR ends a field", fields(b"X: a\n\rY: b")),
    Probe("RFC 9110 5.5", "NUL in a value", fields(b"X: a\x00b")),
    Probe("RFC 9110 5.5", "control byte in a value", fields(b"X: a\x01b")),
    Probe("RFC 9110 5.5", "escape in a value", fields(b"X: \x1b[31m")),
    Probe("RFC 9110 5.5", "DEL in a value", fields(b"X: a\x7fb")),
    Probe("RFC 9110 5.5", "vertical tab before a value", fields(b"X:\x0by")),
    Probe("RFC 9110 5.1", "empty name", fields(b": y")),
    Probe("RFC 9110 5.1", "colon only", fields(b":")),
    Probe("RFC 9110 5.1", "space in a name", fields(b"X Y: z")),
    Probe("RFC 9110 5.1", "NUL in a name", fields(b"X\x00Y: z")),
    Probe("RFC 9110 5.1", "parentheses in a name", fields(b"X(Y): z")),
    Probe("RFC 9110 5.1", "slash in a name", fields(b"X/Y: z")),
    Probe("RFC 9110 5.1", "name in brackets", fields(b"[X]: z")),
    Probe("RFC 9110 5.1", "name in quotes", fields(b'"X": z')),
    Probe("RFC 9110 5.1", "name not in ASCII", fields(b"X\xc3\xa9: z")),
    Probe("RFC 9110 5.1", "control byte in a name", fields(b"X\x0b: z")),
    Probe("RFC 9112 5", "line without a colon", fields(b"nonsense")),
    Probe("RFC 9112 5", "request line among the fields", fields(b"GET /smuggled.html HTTP/1.1")),
    Probe("RFC 6585 5", "field of 40 KB", fields(b"X: " + b"y" * 40_000), 431),
    Probe("RFC 6585 5", "field name of 40 KB", fields(b"X" * 40_000 + b": y"), 431),
    Probe("RFC 6585 5", "fields of 40 KB", fields(*(b"X-%d: " % n + b"y" * 400 for n in range(95))), 431),
    Probe("RFC 6585 5", "300 fields", fields(*(b"X-%d: y" % n for n in range(300))), 431),
)  # fmt: skip
