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
    """A line that tells of the node and not of a request."""

    kind: str  # view, policy, capacity
    ts: float
    node: str
    place: int | None = None  # the index in the total order
    view: str = ""
    members: tuple[str, ...] = ()
    primary: bool = False
    policy: str = ""
    text: str = ""
    capacity_bps: int = 0
    said_by: str = ""  # if that is not the node that it is about

    @property
    def writer(self) -> str:
        return self.said_by or self.node


class PartKey(NamedTuple):
    """A window, or the part of one that was under one policy and one set of rules in force.

    ``scope`` is empty for the cluster, and the name of a node for what it did outside the primary view.
    """

    window_s: int
    policy: str
    scope: str
    situation: int


class Cell(NamedTuple):
    """One class in one part. What is named ``busy`` is of the contended slots alone."""

    key: PartKey
    name: str
    served: int
    denied: int
    expired: int
    failed: int
    refused: int  # 429: the client's own limit
    sent_bytes: int  # of what was served, and of what failed on the way
    size_max: int
    wait_ms_max: float
    slow: tuple[int, ...]  # served, but slower than each of the limits
    busy_served: int
    busy_failed: int
    busy_held_back: int  # denied or expired, or the client gave up
    busy_bytes: int
    gave_up: int = 0  # clients that left while they waited; nobody denied them anything

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
    """Of one class in one contended slot: requests that were begun, those that were held back, and bytes."""

    name: str
    done: int
    held_back: int
    sent_bytes: int


class Moment(NamedTuple):
    """One contended slot: what is not used in it is not saved for the next one."""

    slot: int
    amounts: tuple[ClassAmount, ...]


class Part(NamedTuple):
    """``seconds`` is how long it lasted, ``busy_s`` how much of that was contended.

    Without ``moments`` what the cells say of the contended slots is taken as that of one.
    """

    key: PartKey
    seconds: float
    busy_s: float
    cells: tuple[Cell, ...]
    moments: tuple[Moment, ...] = ()


class AnalysisLimits(NamedTuple):
    """How finely to look, and by how much results may differ from what was promised."""

    window_s: int = 10
    slot_s: int = 1
    tolerance: float = 0.02  # of what was served in a window
    run_tolerance: float = 0.01  # of what was served in all tested windows
    rate_tolerance: float = 0.05  # of a rate
    slack_ms: float = 50.0  # of a time
    slow_part: float = 0.01  # of the requests may take longer than a response time
    waited_ms: float = 5.0  # who waited this long shows that there was contention
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
    """Which lines show a violation, or would: ``lost``, ``held back``, ``served``, ``waited``, ``slow`` ones of some
    classes."""

    what: str
    classes: tuple[str, ...]
    limit_ms: float = 0.0


class Verdict(NamedTuple):
    """What became of one promise in one part, or, where ``key`` is None, in the whole run."""

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
    whole: float | None = None  # what promise and got are parts of, if they are
    evidence: EvidenceQuery | None = None
    line: int = 0  # of the specification
    grain: float = 0.0  # more finely than this it cannot be judged


HELD, VIOLATED, NOT_TESTED = "held", "violated", "not tested"
