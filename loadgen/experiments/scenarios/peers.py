"""Comparison with nginx, HAProxy and Apache: how well each protects one important class behind a narrow pipe.

The pipe is that of a plain node. In front of it stand, one after the other, a node with the guarantee (``--upstream``)
and each installed server of nginx, HAProxy and Apache with mod_qos, configured as near to the guarantee as it can be
(`proxies`). For comparison there is also a node with the guarantee that has the pages and the pipe itself.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from loadgen.experiments import comparison
from loadgen.experiments.comparison import (
    GUARANTEED,
    HEAVY,
    IDLE,
    OVERLOAD,
    SITUATIONS,
    USUAL,
    WARM_UP_S,
    PeerMeasurement,
    PeerResult,
)
from loadgen.experiments.evidence import DENIED, FAILED
from loadgen.experiments.findings import ExperimentFindings, Table
from loadgen.experiments.judging import HEAD_BYTES, bytes_served, count, judge_no_failures, judge_witnesses, used
from loadgen.experiments.layout import SIDE_BY_SIDE, Layout
from loadgen.experiments.proxies.proxy import ProxyTask
from loadgen.experiments.workbench import KB, MB
from loadgen.results.outcomes import UNSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.experiments.evidence import Evidence
    from loadgen.experiments.findings import Bars
    from loadgen.experiments.nodes import NodeProcesses
    from loadgen.experiments.workbench import LoadTarget, Workbench

SIZE = 16 * KB
HERE, IN_FRONT = "qosweb", "qosweb, in front"
OURS = (HERE, IN_FRONT)
FILLED, QUICK_FILLED = 85.0, 65.0
SLOW_S = 1.0  # twice the time that a request may wait


class Peers(NamedTuple):
    name: str = "peers"
    source: str = "beyond the paper"
    title: str = "A class that matters, here and with other servers"
    printed: str = ""
    layout: Layout = SIDE_BY_SIDE

    def criterion(self, *, quick: bool) -> str:
        held, filled = (comparison.QUICK_HELD, QUICK_FILLED) if quick else (comparison.HELD, FILLED)
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
        sizes = dict.fromkeys(GUARANTEED, SIZE)
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
            here, notes = comparison.installed_peers()
            for at, peer in enumerate(here):
                folder = bench.scratch / f"peer{at}"
                task = ProxyTask(upstream, folder, GUARANTEED, capacity_per_s, comparison.LIFETIME_S)
                targets.append((peer.title, slow, stack.enter_context(peer.begin(f"peer{at}", task))))
            for situation, part in SITUATIONS.items():
                asked = comparison.rates(part, capacity_per_s)
                for server, nodes, target in targets:
                    bench.say(f"{situation}: {server}")
                    evidence = bench.load([target], asked, lasting_s, nodes=nodes, like=situation)
                    found.append(PeerMeasurement(server, situation, evidence))
        return judge(found, pipe_bps, quick=bench.size.quick, notes=notes)


def judge(
    found: Sequence[PeerMeasurement], pipe_bps: float, *, quick: bool, notes: Sequence[str] = ()
) -> ExperimentFindings:
    held, filled = (comparison.QUICK_HELD, QUICK_FILLED) if quick else (comparison.HELD, FILLED)
    checks, rows = [], []
    outcomes: dict[str, dict[str, PeerResult]] = {}
    for one in found:
        span_s = (WARM_UP_S, one.evidence.lasted_s)
        got = _outcome(one.evidence, span_s, pipe_bps)
        outcomes.setdefault(one.server, {})[one.situation] = got
        if one.server in OURS:
            checks += comparison.judge_result(f"{one.server}, {one.situation}", got, held, filled, "pipe")
            sound = [judge_no_failures(one.evidence.clients), judge_witnesses(one.evidence)]
            checks += [replace(check, text=f"{one.server}, {one.situation}: {check.text}") for check in sound]
        rows.append(
            [one.situation, one.server, f"{got.a:.1f}", f"{got.b:.1f}", f"{got.used:.1f}",
             *(str(_denied(one.evidence, name)) for name in GUARANTEED),
             *(str(count(one.evidence.clients, what)) for what in (FAILED, UNSENT)),
             *(f"{p99:.2f}" if (p99 := _p99_of(one.evidence, name)) else "" for name in GUARANTEED)]
        )  # fmt: skip
    guarantee = "/a is guaranteed 60 %, the rest goes to any class with demand"
    told = {peer.title: peer.told for peer in comparison.PEERS_KNOWN} | dict.fromkeys(OURS, guarantee)
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
        notes=list(notes),
    )  # fmt: skip


def describe(of: dict[str, PeerResult]) -> str:
    """Describe a result: whether the guarantee holds, /b starves, capacity is idle, and responses are slow."""
    usual, idle, heavy = of[USUAL], of[IDLE], of[HEAVY]
    said = []
    kept = [got.a >= 100 * comparison.HELD * got.due_a / 100 for got in (usual, heavy)]
    if all(kept):
        said.append(f"/a has what is due to it ({usual.a:.0f} and {heavy.a:.0f} % of the pipe)")
    else:
        short = usual if not kept[0] else heavy
        said.append(f"/a is short: {short.a:.0f} % of the pipe where {short.due_a:.0f} % are due to it")
    if heavy.b < comparison.STARVED * 100 * GUARANTEED["/b"]:
        said.append(f"when /a asks for more than that, /b is left {heavy.b:.0f} %")
    said.append(
        f"when /a is idle, {idle.used:.0f} % of the pipe are used"
        + ("" if idle.used >= FILLED else ": the rest is lost")
    )
    slowest_s = max(got.p99_s for got in of.values())
    if slowest_s > SLOW_S:
        said.append(f"responses take up to {slowest_s:.1f} s (p99)")
    return "; ".join(said)


def _bars(situation: str, outcomes: dict[str, dict[str, PeerResult]]) -> Bars:
    title = f"At {OVERLOAD:g} times the pipe, {situation}" + (" of all" if SITUATIONS[situation] else "")
    return comparison.draw_bars(title, "% of the pipe", {server: got[situation] for server, got in outcomes.items()})


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
    a, b = (served.get(name, 0) * (SIZE + HEAD_BYTES) / SIZE / whole for name in GUARANTEED)
    due_a = comparison.due(evidence.clients, span_s, pipe_bps / (SIZE + HEAD_BYTES)) * (SIZE + HEAD_BYTES) / whole
    return PeerResult(a, b, due_a, used(evidence.clients, span_s, pipe_bps), _p99_of(evidence, "/b"))


def _denied(evidence: Evidence, name: str) -> int:
    return count([row for row in evidence.clients if row.class_name == name], DENIED)


def _p99_of(evidence: Evidence, name: str) -> float:
    return comparison.p99_s([row for row in evidence.clients if row.class_name == name])


PEERS = Peers()
