"""Comparison of servers: how well each protects one important class, in three situations at twice the capacity.

/a is guaranteed 60 %. Its demand is 30 % of all requests, none, and 70 %.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments.evidence import SERVED
from loadgen.experiments.findings import Bars, Check, Stack
from loadgen.experiments.judging import windows
from loadgen.experiments.proxies import apache, haproxy, nginx

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from loadgen.experiments.evidence import Evidence, ObservedRequest
    from loadgen.experiments.proxies.proxy import Proxy, ProxyTask

GUARANTEED = {"/a": 0.6, "/b": 0.4}
LIFETIME_S = 0.5
OVERLOAD = 2.0
USUAL, IDLE, HEAVY = "/a asks for 30 %", "/a asks for nothing", "/a asks for 70 %"
SITUATIONS = {USUAL: 0.3, IDLE: 0.0, HEAVY: 0.7}
HELD, QUICK_HELD = 0.92, 0.8  # fraction of what is due to /a
STARVED = 0.5  # fraction of what /a leaves to /b
WARM_UP_S = 2.0


class Peer(NamedTuple):
    """Another server and its configuration."""

    title: str
    told: str
    needs: str
    installed: Callable[[], bool]
    begin: Callable[[str, ProxyTask], Proxy]


PEERS_KNOWN = (
    Peer("nginx, all alike", "nothing of classes", "nginx", nginx.installed, nginx.alike),
    Peer("nginx, rates", "a rate for each class (limit_req)", "nginx", nginx.installed, nginx.reserved),
    Peer("HAProxy, priority", "a queue in which /a comes first (set-priority-class, maxconn)", "HAProxy",
         haproxy.installed, haproxy.prioritised),
    Peer("HAProxy, places", "places for each class, each with a queue (maxconn)", "HAProxy",
         haproxy.installed, haproxy.placed),
    Peer("Apache mod_qos, places", "places for each class, without a queue (QS_LocRequestLimit)", "Apache with mod_qos",
         apache.installed, apache.placed),
)  # fmt: skip


def installed_peers() -> tuple[list[Peer], list[str]]:
    """The peers that can be compared here, and a note about those that cannot."""
    here = [peer for peer in PEERS_KNOWN if peer.installed()]
    absent = sorted({peer.needs for peer in PEERS_KNOWN} - {peer.needs for peer in here})
    return here, [f"Not installed here, and so not compared: {', '.join(absent)}."] if absent else []


class PeerMeasurement(NamedTuple):
    """One server in one situation."""

    server: str
    situation: str
    evidence: Evidence


class PeerResult(NamedTuple):
    """Result of one server in one situation, in per cent of the capacity."""

    a: float
    b: float
    due_a: float  # the smaller of demand and guarantee of /a
    used: float
    p99_s: float


def rates(part: float, capacity_per_s: float) -> dict[str, float]:
    """Requests per second of each class, if `part` of all requests are for /a."""
    asked = {"/a": OVERLOAD * part * capacity_per_s, "/b": OVERLOAD * (1 - part) * capacity_per_s}
    return {name: per_s for name, per_s in asked.items() if per_s}


def due(rows: Sequence[ObservedRequest], span_s: tuple[float, float], capacity_per_s: float) -> float:
    """Requests due to /a: second by second the smaller of its demand and its guarantee."""
    found = 0.0
    for begin_s, end_s in windows(*span_s, 1.0):
        asked = sum(row.class_name == "/a" and begin_s <= row.asked_s < end_s for row in rows)
        found += min(asked, GUARANTEED["/a"] * capacity_per_s)
    return found


def p99_s(rows: Sequence[ObservedRequest]) -> float:
    """Of the served requests; 0 if nothing was served."""
    took = sorted(row.took_s for row in rows if row.outcome == SERVED)
    return took[int(0.99 * (len(took) - 1))] if took else 0.0


def judge_result(situation: str, got: PeerResult, held: float, filled: float, capacity: str) -> list[Check]:
    """`capacity`: the divided resource, in words."""
    full = Check(
        f"{situation}: {filled:g} % or more of the {capacity} are used", got.used >= filled, f"{got.used:.1f} %"
    )
    if not got.due_a:
        return [full]
    text = f"{situation}: /a has {100 * held:g} % or more of what is due to it"
    actual = f"{got.a:.1f} % of the {capacity}, due {got.due_a:.1f} %"
    return [Check(text, got.a >= held * got.due_a, actual), full]


def draw_bars(title: str, unit: str, results: Mapping[str, PeerResult]) -> Bars:
    of = list(results.values())
    due_a = max(got.due_a for got in of)
    parts = [Stack("/a", [got.a for got in of], 0), Stack("/b", [got.b for got in of], 1)]
    return Bars(title, unit, list(results), parts, [(due_a, "due to /a")] if due_a else [])
