"""Reads requests from access logs: JSON lines as qosweb writes them, or the combined format of Apache and nginx. Pure.

Logs are written when requests end; traces are ordered by arrival. Unusable lines (a truncated line, a request that
could not be parsed, an event) are counted by kind: they are neither fatal nor ignored silently.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from loadgen.trace.request import CLASS_LEN_MAX, TraceRequest, fault_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from loadgen.trace.page_mix import Dice

_COMBINED = re.compile(
    r'\S+ \S+ .*?\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "((?:[^"\\]|\\.)*)" \d{3} (?:\d+|-)(?: .*)?'
)
_REQUEST_LINE = re.compile(r"([A-Z]+) (\S+) HTTP/[0-9.]+")
_ESCAPE = re.compile(r'\\(x[0-9A-Fa-f]{2}|["\\])')
_TO_ESCAPE = re.compile(r"[^\x21-\x7e]|%(?![0-9A-Fa-f]{2})|#")

NOT_A_LINE = "not lines of an access log"
NO_REQUEST = "requests that the server could not read"
NO_TRACE = "requests that a trace cannot hold"
EVENTS = "events"


class _LogLine(msgspec.Struct):
    ts: float
    method: str
    path: str
    class_name: str = msgspec.field(default="", name="class")


class _Event(msgspec.Struct):
    event: str


class LogReader:
    """Reads the ``requests`` of a log; afterwards ``skipped`` has the number of skipped lines by kind."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._line = msgspec.json.Decoder(_LogLine)
        self._event = msgspec.json.Decoder(_Event)
        self.skipped: dict[str, int] = {}
        self.first_bad_line = 0

    def requests(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[TraceRequest]:
        """``t`` is in seconds since 1970; the requests are not sorted."""
        for number, line in lines:
            if line.isspace():
                continue
            request = self._json(line) if line.lstrip().startswith(b"{") else self._combined(line)
            if isinstance(request, TraceRequest) and fault_in(request):
                request = NO_TRACE
            if isinstance(request, TraceRequest):
                yield request
                continue
            self.skipped[request] = self.skipped.get(request, 0) + 1
            if request == NOT_A_LINE and not self.first_bad_line:
                self.first_bad_line = number

    def _json(self, line: bytes) -> TraceRequest | str:
        try:
            entry = self._line.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            try:
                self._event.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return NOT_A_LINE
            return EVENTS
        if entry.method == "-" or entry.path == "-":
            return NO_REQUEST
        return TraceRequest(entry.ts, _escaped(entry.path, "utf-8"), entry.method, entry.class_name[:CLASS_LEN_MAX])

    def _combined(self, line: bytes) -> TraceRequest | str:
        match = _COMBINED.fullmatch(line.decode("latin-1").rstrip("\r\n"))
        if match is None:
            return NOT_A_LINE
        try:
            second = datetime.strptime(match[1], "%d/%b/%Y:%H:%M:%S %z").timestamp()
        except ValueError:
            return NOT_A_LINE
        request_line = _REQUEST_LINE.fullmatch(_ESCAPE.sub(_unescape, match[2]))
        if request_line is None:
            return NO_REQUEST
        # The format has whole seconds only: choose a random time within the second.
        return TraceRequest(second + self._dice.random(), _escaped(request_line[2], "latin-1"), request_line[1])


def _escaped(text: str, encoding: str) -> str:
    return _TO_ESCAPE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode(encoding, "replace")), text)


def _unescape(found: re.Match[str]) -> str:
    return found[1] if found[1] in '"\\' else chr(int(found[1][1:], 16))


def as_trace(requests: Iterable[TraceRequest]) -> list[TraceRequest]:
    """Sort the requests by time, starting at 0."""
    in_order = sorted(requests, key=lambda request: request.t)
    begin_s = in_order[0].t if in_order else 0.0
    return [msgspec.structs.replace(request, t=round(request.t - begin_s, 6)) for request in in_order]
