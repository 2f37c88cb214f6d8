"""State of one request between the trace and its outcome."""

from __future__ import annotations

import msgspec

from loadgen.trace.request import TraceRequest

_MAY_REPEAT = frozenset({"GET", "HEAD", "OPTIONS"})


class PendingRequest(msgspec.Struct, eq=False, gc=False):
    """Times are seconds of the monotonic clock."""

    number: int
    request: TraceRequest
    due_s: float
    target: int
    payload: bytes
    method: str  # a redirect can change it
    body: bytes = b""  # sent after the payload; shared by many requests
    url: str = ""  # after a redirect
    late_us: int = 0
    queued_s: float = 0.0  # since when it has waited for a connection
    sent_s: float = 0.0  # when it was first written to a connection
    arrived_s: float = 0.0  # when its response was complete here; 0: no response
    read_late_us: int = -1  # how long the response waited until it was read; -1: unknown
    redirects: int = 0
    retries: int = 0

    @property
    def may_retry(self) -> bool:
        """A request is retried once, and only if it is safe to send twice."""
        return not self.retries and self.request.method in _MAY_REPEAT
