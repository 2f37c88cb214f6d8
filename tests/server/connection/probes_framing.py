"""Requests that a server must reject, as data: bodies, their framing, and smuggled requests.

This server accepts no bodies. It responds at the end of the head, with 413 for a method that it supports and 405 for
others, and closes. So no bytes after such a head may ever be parsed as a request.
"""

from tests.server.connection.probes import GOOD, SMUGGLED, Probe, fields, line


def post(*lines: bytes, body: bytes = b"") -> bytes:
    head = b"\r\n".join((b"POST /good.html HTTP/1.1", b"Host: localhost", *lines, b"", b""))
    return head + body


def chunked(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", body=body)


def get(*lines: bytes, body: bytes = b"") -> bytes:
    return fields(*lines) + body


FRAMING = (
    Probe("RFC 9112 6.3", "Content-Length and Transfer-Encoding",
          post(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.3", "Transfer-Encoding and Content-Length",
          post(b"Transfer-Encoding: chunked", b"Content-Length: 6", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.3", "GET with both",
          get(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.3", "Content-Length 0 and Transfer-Encoding",
          get(b"Content-Length: 0", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.3", "two equal Content-Lengths", post(b"Content-Length: 5", b"Content-Length: 5", body=b"hello")),
    Probe("RFC 9112 6.3", "two different Content-Lengths",
          post(b"Content-Length: 0", b"Content-Length: 5", body=b"hello")),
    Probe("RFC 9112 6.3", "GET with two Content-Lengths of 0", get(b"Content-Length: 0", b"Content-Length: 0")),
    Probe("RFC 9112 6.3", "list of equal Content-Lengths", post(b"Content-Length: 5, 5", body=b"hello")),
    Probe("RFC 9112 6.3", "list of different Content-Lengths", post(b"Content-Length: 5, 0", body=b"hello")),
    Probe("RFC 9110 8.6", "Content-Length +5", post(b"Content-Length: +5", body=b"hello")),
    Probe("RFC 9110 8.6", "Content-Length -1", post(b"Content-Length: -1")),
    Probe("RFC 9110 8.6", "Content-Length -0", get(b"Content-Length: -0")),
    Probe("RFC 9110 8.6", "Content-Length 0x5", post(b"Content-Length: 0x5", body=b"hello")),
    Probe("RFC 9110 8.6", "Content-Length 5 5", post(b"Content-Length: 5 5", body=b"hello")),
    Probe("RFC 9110 8.6", "Content-Length 5.0", post(b"Content-Length: 5.0", body=b"hello")),
    Probe("RFC 9110 8.6", "Content-Length 5e0", post(b"Content-Length: 5e0", body=b"hello")),
    Probe("RFC 9110 8.6", "Content-Length 0_0", get(b"Content-Length: 0_0")),
    Probe("RFC 9110 8.6", "Content-Length in other digits", get(b"Content-Length: \xd9\xa0")),
    Probe("RFC 9110 8.6", "Content-Length in quotes", post(b'Content-Length: "5"', body=b"hello")),
    Probe("RFC 9110 8.6", "Content-Length with a comment", get(b"Content-Length: 0;x")),
    Probe("RFC 9110 8.6", "Content-Length after a vertical tab", get(b"Content-Length:\x0b0")),
    Probe("RFC 9110 8.6", "Content-Length empty", post(b"Content-Length:", body=b"hello")),
    Probe("RFC 9110 8.6", "Content-Length beyond 64 bits", post(b"Content-Length: 18446744073709551616")),
    Probe("RFC 9110 8.6", "Content-Length of 100 digits", post(b"Content-Length: 1" + b"0" * 99)),
    Probe("RFC 9110 8.6", "Content-Length of 2 to the 63", post(b"Content-Length: 9223372036854775808"), 405),
    Probe("RFC 9112 6.2", "space before the colon of Content-Length", post(b"Content-Length : 5", body=b"hello")),
    Probe("RFC 9112 6.1", "chunked, identity", post(b"Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n")),
    Probe("RFC 9112 6.1", "identity", post(b"Transfer-Encoding: identity", body=SMUGGLED)),
    Probe("RFC 9112 6.1", "GET with identity", get(b"Transfer-Encoding: identity", body=SMUGGLED)),
    Probe("RFC 9112 6.1", "xchunked", post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "chunkedx", post(b"Transfer-Encoding: chunkedx", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "chunked after a vertical tab", post(b"Transfer-Encoding:\x0bchunked", body=b"0\r\n\r\n")),
    Probe("RFC 9112 6.1", "chunked before a vertical tab", post(b"Transfer-Encoding: chunked\x0b", body=b"0\r\n\r\n")),
    Probe("RFC 9112 6.1", "chunked in quotes", post(b'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "chunked with a parameter", post(b"Transfer-Encoding: chunked;a=b", body=b"0\r\n\r\n")),
    Probe("RFC 9112 6.1", "empty", post(b"Transfer-Encoding:", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "GET with an empty one", get(b"Transfer-Encoding:", body=SMUGGLED)),
    Probe("RFC 9112 6.1", "GET with a blank one and Content-Length",
          get(b"Content-Length: %d" % len(SMUGGLED), b"Transfer-Encoding: ", body=SMUGGLED)),
    Probe("RFC 9112 6.1", "empty element only", post(b"Transfer-Encoding: ,", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "gzip without chunked", post(b"Transfer-Encoding: gzip", body=SMUGGLED)),
    Probe("RFC 9112 6.1", "chunked twice", post(b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "chunked on two lines",
          post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "chunked, then identity on another line",
          post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "identity, then chunked on another line",
          post(b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "space before the colon", post(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "space before the name", post(b" Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "folded", post(b"Transfer-Encoding:", b" chunked", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "behind a bare LF", post(b"X: y\nTransfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED)),
    Probe("RFC 9112 6.1", "underscore in the name",
          post(b"Content-Length: 5", b"Transfer_Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 6.1", "in HTTP/1.0",
          line(b"GET /good.html HTTP/1.0")[:-2] + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED, 413),
    Probe("RFC 9112 6.1", "in HTTP/1.0 with keep-alive",
          line(b"POST /good.html HTTP/1.0")[:-2]
          + b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED, 405),
    Probe("RFC 9112 6.1", "both in HTTP/1.0",
          line(b"POST / HTTP/1.0")[:-2] + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
)  # fmt: skip

CHUNKS = (
    Probe("RFC 9112 7.1", "well formed", chunked(b"5\r\nhello\r\n0\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1", "negative size", chunked(b"-1\r\nhello\r\n0\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1", "size 0x5", chunked(b"0x5\r\nhello\r\n0\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1", "size beyond 64 bits", chunked(b"1" + b"0" * 16 + b"\r\nhello\r\n0\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1", "empty size", chunked(b"\r\nhello\r\n0\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1", "no CRLF after the data", chunked(b"5\r\nhello0\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1", "LF only", chunked(b"5\nhello\n0\n\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1", "shorter than it says", chunked(b"3\r\nhello\r\n0\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1", "space before the size", chunked(b" 5\r\nhello\r\n0\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1.1", "extension with bare LF", chunked(b"5;a\nb\r\nhello\r\n0\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1.1", "extension of 64 KB", chunked(b"5;" + b"a" * 65_536 + b"\r\nhello\r\n0\r\n\r\n"), 405),
    Probe("RFC 9112 7.1.2", "trailers that frame",
          chunked(b"0\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1.2", "trailer with Host", chunked(b"0\r\nHost: other\r\n\r\n" + SMUGGLED), 405),
    Probe("RFC 9112 7.1", "GET with chunks", get(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED), 413),
    Probe("RFC 9112 7", "gzip and chunked", get(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 413),
)  # fmt: skip

BODIES = (
    Probe("RFC 9110 9.3.1", "GET with a request for a body",
          get(b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED), 413),
    Probe("RFC 9110 9.3.1", "GET with a body and Connection: keep-alive",
          get(b"Connection: keep-alive", b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED), 413),
    Probe("RFC 9110 9.3.1", "GET with a body shorter than it says", get(b"Content-Length: 9", body=SMUGGLED), 413),
    Probe("RFC 9110 9.3.2", "HEAD with a large body",
          line(b"HEAD / HTTP/1.1")[:-2] + b"Content-Length: 16385\r\n\r\n" + SMUGGLED, 413, is_head=True),
    Probe("RFC 9110 9.3.2", "HEAD with large chunks", line(b"HEAD / HTTP/1.1")[:-2]
          + b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + bytes(1024) + b"\r\n" + b"3c00\r\n" + bytes(15 << 10)
          + b"\r\n0\r\n\r\n" + SMUGGLED, 413, is_head=True),
    Probe("RFC 9110 9.3.2", "HEAD with bad chunks", line(b"HEAD / HTTP/1.1")[:-2]
          + b"Transfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n0\r\n\r\n" + SMUGGLED, is_head=True),
    Probe("RFC 9112 6.1", "HEAD with chunks in HTTP/1.0", line(b"HEAD / HTTP/1.0")[:-2]
          + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED, 413, is_head=True),
    Probe("RFC 9110 9.3.7", "OPTIONS with a large body",
          line(b"OPTIONS * HTTP/1.1")[:-2] + b"Content-Length: 16385\r\n\r\n" + SMUGGLED, 413),
    Probe("RFC 9110 9.3.7", "OPTIONS of a bad target with a body",
          line(b"OPTIONS /../ HTTP/1.1")[:-2] + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED),
    Probe("RFC 9110 9.3.3", "POST with a request for a body",
          post(b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED), 405),
    Probe("RFC 9110 9.3.3", "POST whose body never comes", post(b"Content-Length: 1000000"), 405),
    Probe("RFC 9110 9.3.8", "TRACE with a body",
          line(b"TRACE / HTTP/1.1")[:-2] + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED, 405),
    Probe("RFC 9110 9.3.6", "CONNECT", line(b"CONNECT localhost:80 HTTP/1.1") + SMUGGLED, 405),
    Probe("RFC 9110 9.3.6", "CONNECT with a path", line(b"CONNECT /good.html HTTP/1.1") + SMUGGLED, 405),
    Probe("RFC 9110 9.3.6", "CONNECT with a body",
          line(b"CONNECT localhost:80 HTTP/1.1")[:-2] + b"Content-Length: 5\r\n\r\nhello" + SMUGGLED, 405),
    Probe("RFC 9110 10.1.1", "body that waits for 100", post(b"Content-Length: 5", b"Expect: 100-continue"), 405),
    Probe("RFC 9110 10.1.1", "GET with a body that waits for 100",
          get(b"Content-Length: 5", b"Expect: 100-continue", body=b"hello" + SMUGGLED), 413),
    Probe("RFC 9110 10.1.1", "unknown expectation and a body",
          get(b"Expect: 200-ok", b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED), 417),
    Probe("RFC 9110 7.8", "h2c upgrade with a body",
          post(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
               b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED), 405),
    Probe("RFC 9110 7.8", "upgrade to websocket with a body",
          get(b"Connection: Upgrade", b"Upgrade: websocket", b"Content-Length: 50", body=SMUGGLED), 413),
)  # fmt: skip

PIPELINES = (
    Probe("RFC 9112 9.3.2", "garbage after a good request", GOOD + b"\x00\x01\x02\r\n\r\n", before=(200,)),
    Probe("RFC 9112 9.3.2", "garbage after three", GOOD * 3 + b"garbage\r\n\r\n", before=(200,) * 3),
    Probe("RFC 9112 9.3.2", "bad field after a good request", GOOD + fields(b"X : y") + SMUGGLED, before=(200,)),
    Probe("RFC 9112 9.3.2", "no Host after a good request", GOOD + b"GET / HTTP/1.1\r\n\r\n" + SMUGGLED, before=(200,)),
    Probe("RFC 9112 9.3.2", "good requests after a bad one", fields(b"X : y") + SMUGGLED * 2),
    Probe("RFC 9112 9.3.2", "missing page, then garbage", line(b"GET /none HTTP/1.1") + b"?\r\n\r\n", before=(404,)),
    Probe("RFC 9112 9.3.2", "body, then a request",
          GOOD + get(b"Content-Length: 5", body=b"hello") + SMUGGLED, 413, before=(200,)),
    Probe("RFC 9112 9.3.2", "HTTP/2 preface after a good request", GOOD + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505,
          before=(200,)),
    Probe("RFC 9112 11.2", "body of length 0, then its ghost",
          get(b"Content-Length: 0", body=b"X: " + SMUGGLED), before=(200,)),
    Probe("RFC 9112 11.2", "HTTP/1.0 keep-alive, then garbage",
          line(b"GET /good.html HTTP/1.0")[:-2] + b"Connection: keep-alive\r\n\r\n\x01" + SMUGGLED, before=(200,)),
)  # fmt: skip
