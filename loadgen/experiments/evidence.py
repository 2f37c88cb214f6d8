"""Outcomes of a load's requests, in one form for both sources: the clients' results and the access logs. Pure.

Times are seconds since the start of the trace. An access log has only wall-clock times: its first request is taken to
be the first of the trace, so both sources agree up to the lateness of that request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from loadgen.results.outcomes import ACCEPTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from loadgen.results.results import Result

SERVED, DENIED, FAILED, MOVED = "served", "denied", "failed", "redirected"


class ObservedRequest(NamedTuple):
    """One request, as one source (clients or logs) recorded it."""

    asked_s: float
    ended_s: float
    class_name: str
    node: str
    outcome: str  # served, denied, failed, redirected
    size: int
    reason: str
    was_sent_on: bool = False  # redirected from one node to another, as the client saw it
    in_primary: bool = True  # the node was in a primary view, by its log

    @property
    def took_s(self) -> float:
        return self.ended_s - self.asked_s


class LogLine(msgspec.Struct):
    """The fields of an access log line that are used here; a line with ``event`` is not a request."""

    ts: float
    node: str = ""
    view: str = ""
    class_name: str = msgspec.field(default="", name="class")
    decision: str = ""
    bytes: int = 0
    total_ms: float = 0.0
    event: str = ""


class Evidence(NamedTuple):
    """Both records of one load: the clients' results and the access logs."""

    clients: list[ObservedRequest]
    logs: list[ObservedRequest]
    begun_s: float  # start of the trace, on the wall clock
    lasted_s: float  # until the last request was due
    late_p99_ms: float  # lateness of the generator itself
    bad_lines: int  # unreadable log lines

    def witnesses(self) -> tuple[tuple[str, list[ObservedRequest]], tuple[str, list[ObservedRequest]]]:
        return ("clients", self.clients), ("logs", self.logs)

    def at(self, node: str) -> Evidence:
        """The requests to one node."""
        clients, logs = ([row for row in rows if row.node == node] for rows in (self.clients, self.logs))
        return self._replace(clients=clients, logs=logs)


def seen_by_client(result: Result, nodes: Sequence[str]) -> ObservedRequest:
    what = SERVED if result.outcome == ACCEPTED else result.outcome
    return ObservedRequest(
        result.t,
        result.t + result.latency_us / 1e6,
        result.counted_as,
        nodes[result.target],
        what,
        result.bytes if what == SERVED else 0,
        result.reason or result.cause,
        result.redirects > 0,
    )


def seen_in_log(line: LogLine, begun_s: float) -> ObservedRequest:
    what = DENIED if line.decision in ("denied", "expired") else line.decision
    asked_s = line.ts - begun_s
    size = line.bytes if what == SERVED else 0
    return ObservedRequest(
        asked_s,
        asked_s + line.total_ms / 1e3,
        line.class_name,
        line.node,
        what,
        size,
        line.decision,
        in_primary=bool(line.view),
    )


def log_lines(raw: Iterable[bytes]) -> Iterator[LogLine | None]:
    """Requests of a log; None for an unreadable line (such as one that a killed node left incomplete)."""
    decoder = msgspec.json.Decoder(LogLine)
    for text in raw:
        try:
            line = decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            yield None
            continue
        if not line.event:
            yield line
