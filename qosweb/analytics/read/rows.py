"""Data types of the analysis: events, sums by window part and class, limits and verdicts. Pure.

Neighbours: ``slot_sums`` computes the sums on Spark, ``judge`` reads them, ``json_report`` writes the verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from qosweb.analytics.read.policies import LoggedPolicy
    from qosweb.analytics.read.sources import Sources


class LogEvent(NamedTuple):
    """An event line: a fact about a node, not about a request."""

    kind: str  # view, policy, capacity, resource
    ts: float
    node: str
    place: int | None = None  # the index in the total order
    view: str = ""
    members: tuple[str, ...] = ()
    primary: bool = False
    policy: str = ""
    text: str = ""
    capacity_bps: int = 0
    said_by: str = ""  # the node that wrote the line, if it is about another node
    repeated: bool = False  # a copy at the beginning of a new file, whose original is in none of the logs
    resource: str = ""
    pool: str = ""
    limit: int = 0
    cause: str = ""  # why the resource is contended
    request_bytes: int = 0

    @property
    def writer(self) -> str:
        return self.said_by or self.node


class PartKey(NamedTuple):
    """A window, or the part of a window under one policy and one situation.

    ``scope`` is empty for the cluster, and the name of a node for its work outside the primary view. ``pool`` is empty
    for all requests together.
    """

    window_s: int
    policy: str
    scope: str
    situation: int
    pool: str = ""


class ClassSums(NamedTuple):
    """Sums of one class in one part. Fields named ``busy`` cover the contended slots only.

    In a pool of servers the amounts are not bytes but slot time, in microseconds.
    """

    key: PartKey
    name: str
    served: int
    denied: int
    expired: int
    failed: int
    refused: int  # 429: the client's own limit
    sent_bytes: int  # of requests that were served or failed during the response
    size_max: int
    wait_ms_max: float
    slow: tuple[int, ...]  # served requests slower than each of the limits
    busy_served: int
    busy_failed: int
    busy_held_back: int  # denied or expired, or the client gave up
    busy_bytes: int
    gave_up: int = 0  # clients that left while they waited; not denied

    @property
    def requests(self) -> int:
        return self.served + self.denied + self.expired + self.failed + self.gave_up

    @property
    def lost(self) -> int:
        return self.denied + self.expired

    @property
    def held_back(self) -> int:
        return self.lost + self.gave_up


class ClassAmount(NamedTuple):
    """One class in one contended slot: started requests, requests held back, and bytes (or slot time)."""

    name: str
    done: int
    held_back: int
    sent_bytes: int
    backlog: float = 0.0  # part of the slot in which a request of the class waited for the pool
    waits: int = 0  # uninterrupted periods of waiting that began in the slot


class ContendedSlot(NamedTuple):
    """One contended slot: capacity unused in it is not saved for the next."""

    slot: int
    amounts: tuple[ClassAmount, ...]


class Part(NamedTuple):
    """``seconds`` is the length of the part, ``busy_s`` the length of its contended slots.

    Without ``moments`` the contended slots count as one moment. ``cause`` is why its pool was contended, if known.
    """

    key: PartKey
    seconds: float
    busy_s: float
    cells: tuple[ClassSums, ...]
    moments: tuple[ContendedSlot, ...] = ()
    cause: str = ""


class AnalysisLimits(NamedTuple):
    """Resolution and tolerances of the verdicts."""

    window_s: int = 10
    slot_s: int = 1
    tolerance: float = 0.02  # of what was served in a window
    run_tolerance: float = 0.01  # of what was served in all tested windows
    rate_tolerance: float = 0.05  # of a rate
    slack_ms: float = 50.0  # of a time
    slow_part: float = 0.01  # of the requests may take longer than a response time
    waited_ms: float = 5.0  # a wait of this length shows contention
    request_cost: int = 0  # bytes that each request is charged besides its own
    capacity_bps: int | None = None  # of the whole cluster, where the log does not say it
    skip_s: int = 0  # from the beginning of the log, not judged


@dataclass(frozen=True)
class AnalysisRequest:
    """A request for an analysis: what to read and how to judge it."""

    sources: Sources
    spec: LoggedPolicy | None = None
    limits: AnalysisLimits = field(default_factory=AnalysisLimits)
    response: str = "service"


class EvidenceQuery(NamedTuple):
    """Selects lines that show a violation: ``lost``, ``held back``, ``served``, ``waited`` or ``slow`` requests."""

    what: str
    classes: tuple[str, ...]
    limit_ms: float = 0.0


class Verdict(NamedTuple):
    """The outcome of one guarantee in one part or, if ``key`` is None, in the whole run."""

    kind: str
    rule: str
    policy: str
    key: PartKey | None
    outcome: str
    reason: str
    unit: str = ""
    demand: float | None = None
    promise: float | None = None
    got: float | None = None
    whole: float | None = None  # the total of which promise and got are parts, if they are parts
    evidence: EvidenceQuery | None = None
    line: int = 0  # of the specification
    resolution: float = 0.0  # resolution of the verdict
    pool: str = ""  # of the requests that were judged; empty: all
    cause: str = ""  # why the pool was contended


HELD, VIOLATED, NOT_TESTED = "held", "violated", "not tested"
