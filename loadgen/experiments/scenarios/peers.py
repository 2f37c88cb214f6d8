"""Comparison with nginx, HAProxy and Apache: how well each protects one important class behind a narrow pipe.

/a is guaranteed 60 %. Three situations at twice the pipe's capacity: the demand of /a is 30 % of all requests, none,
and 70 %.
The pipe is that of a plain node. In front of it stand, one after the other, a node with the guarantee (``--upstream``)
and each installed server of nginx, HAProxy and Apache with mod_qos, configured as near to the guarantee as it can be
(`proxies`). For comparison there is also a node with the guarantee that has the pages and the pipe itself.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from loadgen.experiments.evidence import DENIED, FAILED, SERVED
from loadgen.experiments.findings import Bars, Check, ExperimentFindings, Stack, Table
from loadgen.experiments.judging import (
    HEAD_BYTES,
    bytes_served,
    count,
    judge_no_failures,
    judge_witnesses,
    used,
    windows,
)
from loadgen.experiments.layout import SIDE_BY_SIDE, Layout
from loadgen.experiments.proxies import apache, haproxy, nginx
from loadgen.experiments.proxies.proxy import ProxyTask
from loadgen.experiments.workbench import KB, MB
from loadgen.results.outcomes import UNSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from loadgen.experiments.evidence import Evidence
    from loadgen.experiments.nodes import NodeProcesses
    from loadgen.experiments.proxies.proxy import Proxy
    from loadgen.experiments.workbench import LoadTarget, Workbench

SIZE = 16 * KB
PROMISED = {"/a": 0.6, "/b": 0.4}
LIFETIME_S = 0.5
OVERLOAD = 2.0
USUAL, IDLE, HEAVY = "/a asks for 30 %", "/a asks for nothing", "/a asks for 70 %"
SITUATIONS = {USUAL: 0.3, IDLE: 0.0, HEAVY: 0.7}
HERE, IN_FRONT = "qosweb", "qosweb, in front"
OURS = (HERE, IN_FRONT)
HELD, QUICK_HELD = 0.92, 0.8  # fraction of what is guaranteed to /a
FILLED, QUICK_FILLED = 85.0, 65.0
STARVED = 0.5  # fraction of what /a leaves to /b
SLOW_S = 1.0  # twice the time that a request may wait
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


class PeerMeasurement(NamedTuple):
    """One server in one situation."""

    server: str
    situation: str
    evidence: Evidence


class PeerResult(NamedTuple):
    """Result of one server in one situation, in per cent of the pipe."""

    a: float
    b: float
    due_a: float  # the smaller of demand and guarantee of /a
    used: float
    p99_b_s: float


class Peers(NamedTuple):
    name: str = "peers"
    source: str = "beyond the paper"
    title: str = "A class that matters, here and with other servers"
    printed: str = ""
    layout: Layout = SIDE_BY_SIDE

    def criterion(self, *, quick: bool) -> str:
        held, filled = (QUICK_HELD, QUICK_FILLED) if quick else (HELD, FILLED)
        return (
            f"/a gets {100 * held:g} % or more of its demand, second by second, or of its guaranteed 60 %, whichever "
            f"is less, and {filled:g} % or more of the pipe are used even while /a has no requests; every request is "
            "served or denied, and logs and clients agree. This has to hold for a node that has the pages itself, and "
            "for one in front of a plain node that has them, as the other servers are. These are measured, not judged."
        )

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        pipe_bps = bench.pipe(MB)
        lasting_s = bench.lasting(8.0, 6.0)
        capacity_per_s = pipe_bps / (SIZE + HEAD_BYTES)
        sizes = dict.fromkeys(PROMISED, SIZE)
        found = []
        with ExitStack() as stack:
            ours = stack.enter_context(bench.nodes(sizes, pipe_bps, spec=bench.spec()))
            ours.begin("qosweb").wait()
            targets: list[tuple[str, NodeProcesses, LoadTarget]] = [(HERE, ours, ours.all[0])]
            slow = stack.enter_context(bench.nodes(sizes, pipe_bps, spec=None))
            upstream = slow.begin("slow").wait()
            front = stack.enter_context(bench.nodes({}, pipe_bps, spec=bench.spec()))
            front.begin("front", more=["--upstream", upstream.url]).wait()
            targets.append((IN_FRONT, front, front.all[0]))
            here = [peer for peer in PEERS_KNOWN if peer.installed()]
            for at, peer in enumerate(here):
                folder = bench.scratch / f"peer{at}"
                task = ProxyTask(upstream, folder, PROMISED, capacity_per_s, LIFETIME_S)
                targets.append((peer.title, slow, stack.enter_context(peer.begin(f"peer{at}", task))))
            for situation, part in SITUATIONS.items():
                asked = {"/a": OVERLOAD * part * capacity_per_s, "/b": OVERLOAD * (1 - part) * capacity_per_s}
                asked = {name: per_s for name, per_s in asked.items() if per_s}
                for server, nodes, target in targets:
                    bench.say(f"{situation}: {server}")
                    evidence = bench.load([target], asked, lasting_s, nodes=nodes, like=situation)
                    found.append(PeerMeasurement(server, situation, evidence))
        absent = sorted({peer.needs for peer in PEERS_KNOWN} - {peer.needs for peer in here})
        return judge(found, pipe_bps, quick=bench.size.quick, absent=absent)


def judge(
    found: Sequence[PeerMeasurement], pipe_bps: float, *, quick: bool, absent: Sequence[str] = ()
) -> ExperimentFindings:
    held, filled = (QUICK_HELD, QUICK_FILLED) if quick else (HELD, FILLED)
    checks, rows = [], []
    outcomes: dict[str, dict[str, PeerResult]] = {}
    for one in found:
        span_s = (WARM_UP_S, one.evidence.lasted_s)
        got = _outcome(one.evidence, span_s, pipe_bps)
        outcomes.setdefault(one.server, {})[one.situation] = got
        if one.server in OURS:
            checks += _checks(f"{one.server}, {one.situation}", got, held, filled)
            sound = [judge_no_failures(one.evidence.clients), judge_witnesses(one.evidence)]
            checks += [replace(check, text=f"{one.server}, {one.situation}: {check.text}") for check in sound]
        rows.append(
            [one.situation, one.server, f"{got.a:.1f}", f"{got.b:.1f}", f"{got.used:.1f}",
             *(str(_denied(one.evidence, name)) for name in PROMISED),
             *(str(count(one.evidence.clients, what)) for what in (FAILED, UNSENT)),
             *(f"{p99:.2f}" if (p99 := _p99_s(one.evidence, name)) else "" for name in PROMISED)]
        )  # fmt: skip
    promise = "/a is guaranteed 60 %, the rest goes to any class with demand"
    told = {peer.title: peer.told for peer in PEERS_KNOWN} | dict.fromkeys(OURS, promise)
    return ExperimentFindings(
        seen=_sentence(outcomes),
        checks=checks,
        panels=[_bars(situation, outcomes) for situation in SITUATIONS],
        tables=[
            Table("Results by server",
                  ["server", "configuration", "result"],
                  [[server, told[server], describe(of)] for server, of in outcomes.items()]),
            Table("Goodput in per cent of the pipe, what was not served, and response times of what was",
                  ["situation", "server", "/a, %", "/b, %", "used, %", "/a denied", "/b denied", "failed", "unsent",
                   "/a p99, s", "/b p99, s"], rows),
        ],
        csv_head=["situation", "server", "a_percent", "b_percent", "used_percent", "a_denied", "b_denied", "failed",
                  "unsent", "a_p99_s", "b_p99_s"],
        csv_rows=rows,
        notes=[f"Not installed here, and so not compared: {', '.join(absent)}."] if absent else [],
    )  # fmt: skip


def describe(of: dict[str, PeerResult]) -> str:
    """Describe a result: whether the guarantee holds, /b starves, capacity is idle, and responses are slow."""
    usual, idle, heavy = of[USUAL], of[IDLE], of[HEAVY]
    said = []
    kept = [got.a >= 100 * HELD * got.due_a / 100 for got in (usual, heavy)]
    if all(kept):
        said.append(f"/a has what is due to it ({usual.a:.0f} and {heavy.a:.0f} % of the pipe)")
    else:
        short = usual if not kept[0] else heavy
        said.append(f"/a is short: {short.a:.0f} % of the pipe where {short.due_a:.0f} % are due to it")
    if heavy.b < STARVED * 100 * PROMISED["/b"]:
        said.append(f"when /a asks for more than that, /b is left {heavy.b:.0f} %")
    said.append(
        f"when /a is idle, {idle.used:.0f} % of the pipe are used"
        + ("" if idle.used >= FILLED else ": the rest is lost")
    )
    slowest_s = max(got.p99_b_s for got in of.values())
    if slowest_s > SLOW_S:
        said.append(f"responses take up to {slowest_s:.1f} s (p99)")
    return "; ".join(said)


def _checks(situation: str, got: PeerResult, held: float, filled: float) -> list[Check]:
    checks = []
    if got.due_a > 0:
        checks.append(
            Check(
                f"{situation}: /a has {100 * held:g} % or more of what is due to it",
                got.a >= held * got.due_a,
                f"{got.a:.1f} % of the pipe, due {got.due_a:.1f} %",
            )
        )
    text = f"{situation}: {filled:g} % or more of the pipe are used"
    return [*checks, Check(text, got.used >= filled, f"{got.used:.1f} %")]


def _bars(situation: str, outcomes: dict[str, dict[str, PeerResult]]) -> Bars:
    of = [got[situation] for got in outcomes.values()]
    return Bars(
        f"At {OVERLOAD:g} times the pipe, {situation}" + (" of all" if SITUATIONS[situation] else ""),
        "% of the pipe",
        list(outcomes),
        [Stack("/a", [got.a for got in of], 0), Stack("/b", [got.b for got in of], 1)],
        [(max(got.due_a for got in of), "due to /a")] if SITUATIONS[situation] else [],
    )


def _sentence(outcomes: dict[str, dict[str, PeerResult]]) -> str:
    ours = outcomes[HERE]
    return (
        f"Here /a, guaranteed 60 %, has {ours[USUAL].a:.0f} % of the pipe where it asks for {ours[USUAL].due_a:.0f} %, "
        f"and {ours[HEAVY].a:.0f} % where it asks for far more, which leaves /b {ours[HEAVY].b:.0f} %; while /a is "
        f"idle, {ours[IDLE].used:.0f} % of the pipe are used.{_in_front(outcomes)} What the others do is in the table."
    )


def _in_front(outcomes: dict[str, dict[str, PeerResult]]) -> str:
    ours = outcomes.get(IN_FRONT)
    if ours is None:
        return ""
    return (
        f" In front of a plain node, as the others are, it is {ours[USUAL].a:.0f} % where it asks for "
        f"{ours[USUAL].due_a:.0f} %, {ours[HEAVY].a:.0f} % and {ours[HEAVY].b:.0f} %, and {ours[IDLE].used:.0f} %."
    )


def _outcome(evidence: Evidence, span_s: tuple[float, float], pipe_bps: float) -> PeerResult:
    served = bytes_served(evidence.clients, *span_s)
    whole = pipe_bps * (span_s[1] - span_s[0]) / 100
    a, b = (served.get(name, 0) * (SIZE + HEAD_BYTES) / SIZE / whole for name in PROMISED)
    due = _due(evidence, span_s, pipe_bps) * (SIZE + HEAD_BYTES) / whole
    return PeerResult(a, b, due, used(evidence.clients, span_s, pipe_bps), _p99_s(evidence, "/b"))


def _due(evidence: Evidence, span_s: tuple[float, float], pipe_bps: float) -> float:
    """Requests due to /a: second by second the smaller of its demand and its guarantee."""
    promised_per_s = PROMISED["/a"] * pipe_bps / (SIZE + HEAD_BYTES)
    due = 0.0
    for begin_s, end_s in windows(*span_s, 1.0):
        asked = sum(row.class_name == "/a" and begin_s <= row.asked_s < end_s for row in evidence.clients)
        due += min(asked, promised_per_s)
    return due


def _denied(evidence: Evidence, name: str) -> int:
    return count([row for row in evidence.clients if row.class_name == name], DENIED)


def _p99_s(evidence: Evidence, name: str) -> float:
    """0 if nothing was served."""
    took = sorted(row.took_s for row in evidence.clients if row.what == SERVED and row.class_name == name)
    return took[int(0.99 * (len(took) - 1))] if took else 0.0


PEERS = Peers()
