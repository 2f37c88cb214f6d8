"""What can become of a request. Pure.

accepted    an answer of 2xx or 304, whole
denied      503 or 429: the server said that it will not serve this now
redirected  3xx, where redirects are not followed
failed      anything else, by cause
unsent      the generator had no connection to send it on within the time allowed (--send-within)
"""

from __future__ import annotations

import errno
import ssl

ACCEPTED, DENIED, REDIRECTED, FAILED, UNSENT = "accepted", "denied", "redirected", "failed", "unsent"
OUTCOMES = (ACCEPTED, DENIED, REDIRECTED, FAILED, UNSENT)

REFUSED = "connection refused"
CONNECT_TIMEOUT = "no connection in time"
RESET = "connection reset"
CLOSED = "closed without an answer"
CUT_OFF = "closed within the answer"
TIMEOUT = "no complete answer in time"
INTERRUPTED = "interrupted"
DIED = "a process of the load generator ended"
REDIRECTS = "too many redirects"
REDIRECT_UNSENT = "redirect not sent in time"
REDIRECT_AWAY = "redirect to another machine"
BAD_REDIRECT = "redirect that leads nowhere"

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})

_BY_ERRNO = {
    errno.ECONNREFUSED: REFUSED,
    errno.ECONNRESET: RESET,
    errno.EPIPE: RESET,
    errno.ETIMEDOUT: CONNECT_TIMEOUT,
    errno.EHOSTUNREACH: "host not reachable",
    errno.ENETUNREACH: "network not reachable",
    errno.EMFILE: "too many open files in the load generator",
    errno.EADDRNOTAVAIL: "no free port to connect from",
}


def outcome_of(status: int) -> str:
    if 200 <= status < 300 or status == 304:
        return ACCEPTED
    if status in (503, 429):
        return DENIED
    if status in REDIRECT_STATUSES:
        return REDIRECTED
    return FAILED


def cause_of(error: BaseException) -> str:
    """The name of a failed connection."""
    if isinstance(error, TimeoutError):
        return CONNECT_TIMEOUT
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _BY_ERRNO[error.errno]
    return f"cannot connect: {getattr(error, 'strerror', None) or error or type(error).__name__}"
