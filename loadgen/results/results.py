"""Results format: the outcome of each request as JSON lines. The first line describes the run. Pure."""

from __future__ import annotations

import re

import msgspec

from loadgen.trace.request import TraceRequest

_SECRET = re.compile(
    r"\bauth\b|authori[sz]ation|authenti|cookie|token|secret|passw|credential|api-?key|session", re.IGNORECASE
)


class RunFacts(msgspec.Struct, omit_defaults=True):
    """Description of a run."""

    trace: str
    targets: list[str]
    spread: list[float]
    started: str  # date and time, UTC
    requests: int  # in the trace; 0 in a closed loop, which repeats the trace
    duration_s: float  # until the last request was due; in a closed loop its duration
    processes: int
    connections: int
    timeout_s: float
    send_within_s: float
    version: str = ""
    closed_loop: bool = False
    follow: bool = True
    # Options that a replay takes over unless they are overridden.
    headers: dict[str, str] = {}  # of every request, in addition to those of the trace
    headers_left_out: list[str] = []  # names of headers whose values may be secrets
    redirects_max: int = 5
    connect_timeout_s: float = 5.0
    body_max: int = 1 << 30
    insecure: bool = False
    ca: str = ""


def suggests_secret(name: str) -> bool:
    """Whether the value of a header may be a secret and must not be recorded: Authorization, Cookie, X-Api-Key, ..."""
    return _SECRET.search(name) is not None


class FirstLine(msgspec.Struct):
    """The first line of a results file, which describes the run."""

    run: RunFacts


class Result(msgspec.Struct, omit_defaults=True, gc=False):
    """Result of one request. Times are in microseconds since its due time."""

    n: int  # its position in the trace
    t: float
    url: str
    outcome: str
    method: str = "GET"
    class_name: str = msgspec.field(default="", name="class")  # from the trace
    headers: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    body: int | str | msgspec.UnsetType = msgspec.UNSET
    target: int = 0
    status: int = 0
    answered_as: str = ""  # QoS-Class of the response
    reason: str = ""  # why it was denied
    cause: str = ""  # why it failed
    bytes: int = 0
    late_us: int = 0  # until the generator took it up
    sent_us: int = 0  # until it was written to a connection
    latency_us: int = 0  # until its response was complete, or it was given up
    redirects: int = 0
    retries: int = 0
    read_late_us: int = -1  # how long after that the generator read the end of the response; -1: unknown

    @property
    def counted_as(self) -> str:
        """The class under which it is counted: that of the trace, else that of the response."""
        return self.class_name or self.answered_as or "-"


def request_of(result: Result) -> TraceRequest:
    return TraceRequest(result.t, result.url, result.method, result.class_name, result.headers, result.body)
