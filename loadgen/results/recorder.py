"""What became of requests: counts, and a line of results for each if somebody wants them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from loadgen.results.histogram import VALUE_MAX, index_of
from loadgen.results.outcomes import ACCEPTED, DENIED, FAILED
from loadgen.results.results import Result
from loadgen.results.tally import RunTally, add_count

if TYPE_CHECKING:
    from loadgen.send.pending_request import PendingRequest
    from loadgen.send.response_reader import ResponseHead

_EACH_ITS_OWN = 2047  # up to here each value of a histogram has a slot of its own
_monotonic = time.monotonic


class ResultRecorder:
    """Of one process. ``lines`` and ``tally`` are what nobody has taken yet."""

    def __init__(self, *, want_results: bool, closed_loop: bool) -> None:
        self._want_results = want_results
        self._closed_loop = closed_loop
        self._encode = msgspec.json.Encoder().encode
        self.tally = RunTally()
        self.lines: list[bytes] = []

    def take(self) -> RunTally:
        """The counts since the last time."""
        taken, self.tally = self.tally, RunTally()
        return taken

    def take_up(self, shot: PendingRequest, now_s: float) -> None:
        """The generator has come to a request, so long after it was due."""
        tally = self.tally
        late_us = shot.late_us = min(int((now_s - shot.due_s) * 1e6), VALUE_MAX)
        late = tally.late_us
        slot = index_of(late_us) if late_us > _EACH_ITS_OWN else late_us
        late[slot] = late.get(slot, 0) + 1
        if late_us > tally.late_max_us:
            tally.late_max_us = late_us
        tally.targets[shot.target] = tally.targets.get(shot.target, 0) + 1

    def end(self, shot: PendingRequest, outcome: str, head: ResponseHead | None, size: int, cause: str) -> None:
        now_s = shot.arrived_s or _monotonic()
        since_s = shot.sent_s if self._closed_loop and shot.sent_s else shot.due_s
        latency_us = min(int((now_s - since_s) * 1e6), VALUE_MAX)
        request = shot.request
        answered_as = head.qos_class if head is not None else ""
        name = request.class_name or answered_as or "-"
        mine = self.tally.classes.get(name) or self.tally.of(name)
        mine.outcomes[outcome] = mine.outcomes.get(outcome, 0) + 1
        reason = ""
        if outcome == ACCEPTED:
            slot = index_of(latency_us) if latency_us > _EACH_ITS_OWN else latency_us
            slots = mine.latency_us
            slots[slot] = slots.get(slot, 0) + 1
            if latency_us > mine.latency_max_us:
                mine.latency_max_us = latency_us
            answer_us = int((now_s - shot.sent_s) * 1e6)
            slot = index_of(min(answer_us, VALUE_MAX)) if answer_us > _EACH_ITS_OWN else answer_us
            slots = mine.answer_us
            slots[slot] = slots.get(slot, 0) + 1
            mine.bytes += size
        elif outcome == DENIED:
            assert head is not None
            reason = head.qos_decision or f"status {head.status}"
            add_count(mine.reasons, reason)
            slot = index_of(latency_us)
            mine.denial_us[slot] = mine.denial_us.get(slot, 0) + 1
        elif outcome == FAILED:
            add_count(mine.causes, cause)
        read_late_us = shot.read_late_us
        if read_late_us >= 0:
            tally = self.tally
            slots = tally.read_late_us
            slot = index_of(min(read_late_us, VALUE_MAX)) if read_late_us > _EACH_ITS_OWN else read_late_us
            slots[slot] = slots.get(slot, 0) + 1
            if read_late_us > tally.read_late_max_us:
                tally.read_late_max_us = read_late_us
        if answered_as:
            add_count(mine.answered_as, answered_as)
        if shot.redirects:
            mine.redirects += shot.redirects
            mine.redirected += 1
        mine.retries += shot.retries
        if self._want_results:
            status = 0 if head is None else head.status
            sent_us = int((shot.sent_s - shot.due_s) * 1e6) if shot.sent_s else 0
            result = Result(
                shot.number, request.t, request.url, outcome, request.method, request.class_name, request.headers,
                request.body, shot.target, status, answered_as, reason, cause, size, shot.late_us, sent_us, latency_us,
                shot.redirects, shot.retries, read_late_us,
            )  # fmt: skip
            self.lines.append(self._encode(result))
