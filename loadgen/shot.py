"""One request on its way from the trace to its outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadgen.trace.request import Request

_MAY_REPEAT = frozenset({"GET", "HEAD", "OPTIONS"})


class Shot:
    """Times are seconds of the monotonic clock."""

    __slots__ = ("body", "due_s", "late_us", "may_retry", "method", "no_body", "number", "payload", "queued_s",
                 "redirects", "request", "retries", "sent_s", "target", "url")  # fmt: skip

    def __init__(self, number: int, request: Request, due_s: float, target: int, payload: bytes) -> None:
        self.number = number
        self.request = request
        self.due_s = due_s
        self.target = target
        self.payload = payload
        self.body = b""  # what comes after the payload; many shots have the same
        self.method = request.method  # a redirect can change it
        self.url = ""  # where a redirect led to
        self.no_body = request.method == "HEAD"
        self.may_retry = request.method in _MAY_REPEAT
        self.late_us = 0
        self.queued_s = due_s  # since when it waits for a connection
        self.sent_s = 0.0  # when it was first written to one
        self.redirects = 0
        self.retries = 0
