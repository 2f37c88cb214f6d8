"""Names of connection errors, under which failed requests are counted."""

from __future__ import annotations

import errno
import ssl

from loadgen.results.outcomes import CONNECT_TIMEOUT, REFUSED, RESET

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


def cause_of(error: BaseException) -> str:
    """The name of a connection error."""
    if isinstance(error, TimeoutError):
        return CONNECT_TIMEOUT
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _BY_ERRNO[error.errno]
    return f"cannot connect: {getattr(error, 'strerror', None) or error or type(error).__name__}"
