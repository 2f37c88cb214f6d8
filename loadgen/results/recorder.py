"""Records the outcome of each request in one worker process: counts and, optionally, a line of results."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from loadgen.results.outcomes import DENIED
from loadgen.results.results import Result
from loadgen.results.tally import RunTally

if TYPE_CHECKING:
    from loadgen.send.pending_request import PendingRequest
    from loadgen.send.response_reader import ResponseHead

_monotonic = time.monotonic


class ResultRecorder:
    """Recorder of one worker process. ``lines`` and ``tally`` hold the results since they were last taken."""

    def __init__(self, *, want_results: bool, closed_loop: bool) -> None:
        self._want_results = want_results
        self._closed_loop = closed_loop
        self._encode = msgspec.json.Encoder().encode
        self.tally = RunTally()
        self.lines: list[bytes] = []

    def take(self) -> RunTally:
        """Take the counts since the last call."""
        taken, self.tally = self.tally, RunTally()
        return taken

    def take_up(self, shot: PendingRequest, now_s: float) -> None:
        """Record how late after its due time the generator took up a request."""
        shot.late_us = int((now_s - shot.due_s) * 1e6)

    def end(self, shot: PendingRequest, outcome: str, head: ResponseHead | None, size: int, cause: str) -> None:
        now_s = shot.arrived_s or _monotonic()
        due_s, sent_s = shot.due_s, shot.sent_s
        since_s = sent_s if self._closed_loop and sent_s else due_s
        request = shot.request
        status, answered_as, reason = 0, "", ""
        if head is not None:
            status, answered_as = head.status, head.qos_class
            if outcome == DENIED:
                reason = head.qos_decision or f"status {status}"
        result = Result(
            shot.number, request.t, request.url, outcome, request.method, request.class_name, request.headers,
            request.body, shot.target, status, answered_as, reason, cause, size, shot.late_us,
            int((sent_s - due_s) * 1e6) if sent_s else 0, int((now_s - since_s) * 1e6), shot.redirects, shot.retries,
            shot.read_late_us,
        )  # fmt: skip
        self.tally.count(result, self._closed_loop)
        if self._want_results:
            self.lines.append(self._encode(result))
