"""Unusual but valid requests, which a strict server must accept."""

from dataclasses import dataclass

from tests.server.connection.probes import GOOD, SMUGGLED, fields, host, line, target


@dataclass(frozen=True)
class Accepted:
    """``stays_open``: whether the connection takes another request afterwards."""

    section: str
    name: str
    data: bytes
    status: int = 200
    stays_open: bool = True
    is_head: bool = False

    @property
    def title(self) -> str:
        return f"{self.section} {self.name}"


ACCEPTED = (
    Accepted("RFC 9112 2.2", "empty line before the request line", b"\r\n" + GOOD),
    Accepted("RFC 9112 2.2", "several empty lines", b"\r\n" * 5 + GOOD),
    Accepted("RFC 9112 2.3", "HTTP/1.0 without Host", b"GET /good.html HTTP/1.0\r\n\r\n", stays_open=False),
    Accepted("RFC 9110 2.5", "HTTP/1.2", line(b"GET /good.html HTTP/1.2")),
    Accepted("RFC 9110 2.5", "HTTP/1.9 after an empty line", b"\r\n" + line(b"HEAD /good.html HTTP/1.9"), is_head=True),
    Accepted("RFC 9112 9.3", "HTTP/1.0 with keep-alive",
             line(b"GET /good.html HTTP/1.0")[:-2] + b"Connection: keep-alive\r\n\r\n"),
    Accepted("RFC 9112 9.6", "Connection: close", fields(b"Connection: close"), stays_open=False),
    Accepted("RFC 9112 9.6", "close in a list, in odd case", fields(b"Connection: x , CLOSE"), stays_open=False),
    Accepted("RFC 9112 9.6", "request after Connection: close", fields(b"Connection: close") + SMUGGLED,
             stays_open=False),
    Accepted("RFC 9112 3.2.2", "absolute-form", target(b"http://localhost/good.html")),
    Accepted("RFC 9112 3.2.2", "absolute-form in odd case", target(b"HTTP://LocalHost/good.html")),
    Accepted("RFC 9112 3.2.2", "absolute-form against Host", target(b"http://other:8080/good.html")),
    Accepted("RFC 9112 3.2.4", "OPTIONS *", line(b"OPTIONS * HTTP/1.1"), 204),
    Accepted("RFC 9110 9.3.7", "OPTIONS of a page", line(b"OPTIONS /good.html HTTP/1.1"), 204),
    Accepted("RFC 9110 9.3.2", "HEAD", line(b"HEAD /good.html HTTP/1.1"), is_head=True),
    Accepted("RFC 9110 9.3.2", "HEAD with a request for a body",
             line(b"HEAD /good.html HTTP/1.1")[:-2] + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED,
             is_head=True),
    Accepted("RFC 9110 9.3.2", "HEAD with chunks",
             line(b"HEAD /good.html HTTP/1.1")[:-2] + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX: y\r\n\r\n"
             % (len(SMUGGLED), SMUGGLED), is_head=True),
    Accepted("RFC 9110 9.3.7", "OPTIONS with a request for a body",
             line(b"OPTIONS * HTTP/1.1")[:-2] + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED, 204),
    Accepted("RFC 9110 9.3.7", "OPTIONS of a page with 16 KB",
             line(b"OPTIONS /good.html HTTP/1.1")[:-2] + b"Content-Length: 16384\r\n\r\n" + bytes(16384), 204),
    Accepted("RFC 9110 9.3.8", "TRACE", line(b"TRACE /good.html HTTP/1.1"), 405),
    Accepted("RFC 9110 9.3.5", "DELETE without a body", line(b"DELETE /good.html HTTP/1.1"), 405),
    Accepted("RFC 9110 9.3.3", "POST of nothing", line(b"POST / HTTP/1.1")[:-2] + b"Content-Length: 0\r\n\r\n", 405),
    Accepted("RFC 9110 8.6", "GET with Content-Length 0", fields(b"Content-Length: 0")),
    Accepted("RFC 9110 8.6", "GET with Content-Length 000", fields(b"Content-Length: 000")),
    Accepted("RFC 9110 7.2", "Host with a port", host(b"Host: localhost:8080")),
    Accepted("RFC 9110 7.2", "Host in odd case", host(b"hOsT: LOCALHOST")),
    Accepted("RFC 9110 7.2", "Host last", host(b"X: y", b"Host: localhost")),
    Accepted("RFC 9110 7.2", "Host with spaces around", host(b"Host: \t localhost \t ")),
    Accepted("RFC 9110 7.2", "Host without a space", host(b"Host:localhost")),
    Accepted("RFC 3986 3.2.2", "IPv4 Host", host(b"Host: 127.0.0.1:80")),
    Accepted("RFC 3986 3.2.2", "Host with a final dot", host(b"Host: localhost.:80")),
    Accepted("RFC 3986 3.2.2", "IPv6 Host", host(b"Host: [::1]:80")),
    Accepted("RFC 3986 3.2.3", "Host with an empty port", host(b"Host: localhost:")),
    Accepted("RFC 3986 2.1", "escapes in lower case", target(b"/caf%c3%a9.html")),
    Accepted("RFC 3986 2.1", "escapes in upper case", target(b"/caf%C3%A9.html")),
    Accepted("RFC 3986 2.1", "needless escapes", target(b"/%67ood.html")),
    Accepted("RFC 3986 3.4", "query", target(b"/good.html?a=b/../c&%00?")),
    Accepted("RFC 3986 3.4", "empty query", target(b"/good.html?")),
    Accepted("RFC 3986 3.3", "no such page", target(b"/none.html"), 404),
    Accepted("RFC 9110 5.1", "unknown fields", fields(b"X-Unknown: 1", b"!#$%&'*+-.^_`|~: all of tchar")),
    Accepted("RFC 9110 5.5", "empty value", fields(b"X:")),
    Accepted("RFC 9110 5.5", "value of blanks", fields(b"X: \t ")),
    Accepted("RFC 9110 5.5", "Latin-1 value", fields(b"X: caf\xe9")),
    Accepted("RFC 9110 5.5", "tab within a value", fields(b"X: a\tb")),
    Accepted("RFC 9110 5.3", "repeated fields", fields(b"Accept: text/html", b"accept: */*")),
    Accepted("RFC 9110 5.4", "90 fields", fields(*(b"X-%d: y" % n for n in range(90)))),
    Accepted("RFC 9110 5.4", "field of 16 KB", fields(b"X: " + b"y" * 16_000)),
    Accepted("RFC 9110 5.4", "target of 7 KB", target(b"/good.html?" + b"a" * 7_000)),
    Accepted("RFC 9110 5.1", "nearly Content-Length", fields(b"Content-Lengt: 5", b"Content_Length: 5")),
    Accepted("RFC 9110 7.8", "h2c upgrade is ignored",
             fields(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIA"),
             stays_open=False),
    Accepted("RFC 9110 7.8", "websocket is ignored", fields(b"Connection: Upgrade", b"Upgrade: websocket"),
             stays_open=False),
    Accepted("RFC 9110 7.8", "Upgrade without Connection", fields(b"Upgrade: h2c")),
    Accepted("RFC 9110 10.1.1", "Expect: 100-continue without a body", fields(b"Expect: 100-Continue")),
    Accepted("RFC 9110 10.1.1", "unknown expectation", fields(b"Expect: 200-ok"), 417),
    Accepted("RFC 9110 10.1.4", "TE", fields(b"TE: trailers, deflate;q=0.5", b"Connection: TE")),
    Accepted("RFC 9110 13.1.2", "If-None-Match: *", fields(b"If-None-Match: *"), 304),
    Accepted("RFC 9110 14.2", "range", fields(b"Range: bytes=0-1"), 206),
    Accepted("RFC 9110 14.2", "malformed range is ignored", fields(b"Range: bytes=1-0"), 200),
)  # fmt: skip
