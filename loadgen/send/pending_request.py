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
    body: bytes = b""  # what comes after the payload; many shots have the same
    url: str = ""  # where a redirect led to
    late_us: int = 0
    queued_s: float = 0.0  # since when it waits for a connection
    sent_s: float = 0.0  # when it was first written to one
    arrived_s: float = 0.0  # when its answer was complete here; 0: there is none
    read_late_us: int = -1  # how long the answer lay there until it was read; -1: nobody knows
    redirects: int = 0
    retries: int = 0

    @property
    def may_retry(self) -> bool:
        """Once, and only what does no harm if it arrives twice."""
        return not self.retries and self.request.method in _MAY_REPEAT
