"""Names of header fields that an intermediary does not copy from one message to the next, in lower case. Pure.

From: RFC 9110 section 7.6.1.
"""

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)
DROPPED = HOP_BY_HOP | {b"content-length"}  # also if written with '_', which some servers read as '-'
NEVER_NAMED = frozenset({b"host", b"content-length", b"via"})  # not to be removed by Connection
REWRITTEN = frozenset({b"host", b"expect", b"x-request-id", b"via", b"max-forwards"})  # of requests: written anew
