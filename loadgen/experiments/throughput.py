"""What keeping promises costs: a plain node and one with promises behind the same pipe, lifetime swept (figure 8).

The pipe is the bottleneck, as the paper's network was; both are asked for 1.28 times what it takes, as the paper's
servers were (8 files of 128 KB a second, of which the plain one served 0.78 MB).
Plain is a node without a specification: one class, nobody is denied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments import paper
from loadgen.experiments.bench import KB, MB
from loadgen.experiments.evidence import DENIED
from loadgen.experiments.findings import Check, Findings, Line, Panel, Table
from loadgen.experiments.judging import HEAD_BYTES, count, judge_no_failures, judge_witnesses, used

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.experiments.bench import Bench
    from loadgen.experiments.evidence import Evidence

SIZE = 16 * KB
ASKED = {"/a": 0.64, "/b": 0.64}
LIFETIMES_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
QUICK_LIFETIMES_S = (0.1, 1.0)
ENOUGH_S = 0.5  # from this lifetime on the ratio is judged
RATIO_MIN = 0.95
QUICK_RATIO_MIN = 0.85
WARM_UP_S = 1.0


class Step(NamedTuple):
    """``lifetime_s`` is 0 for the plain node."""

    lifetime_s: float
    evidence: Evidence


class Throughput(NamedTuple):
    name: str = "throughput"
    source: str = "figure 8"
    title: str = "What keeping promises costs, by lifetime"
    criterion: str = (
        "From a lifetime of 0.5 s on, a node with promises serves 95 % or more of what a plain one serves through the "
        "same pipe."
    )
    printed: str = (
        f"The paper's plain server had {paper.FIGURE_8_PLAIN_MBPS} MB/s and the other from "
        f"{paper.FIGURE_8_QOS_MBPS[0]} to {paper.FIGURE_8_QOS_MBPS[1]:.1f} MB/s, growing with the lifetime: "
        "54 to 90 %."
    )

    def carry_out(self, bench: Bench) -> Findings:
        pipe_bps = bench.pipe(2 * MB)
        lasting_s = bench.lasting(10.0, 5.0)
        rates = {name: part * pipe_bps / (SIZE + HEAD_BYTES) for name, part in ASKED.items()}
        steps = []
        for lifetime_s in (0.0, *(QUICK_LIFETIMES_S if bench.size.quick else LIFETIMES_S)):
            spec = bench.spec(lifetime=f"{lifetime_s * 1000:.0f}ms") if lifetime_s else None
            bench.say(f"lifetime {lifetime_s:g} s" if lifetime_s else "plain node")
            with bench.nodes(dict.fromkeys(ASKED, SIZE), pipe_bps, spec=spec) as nodes:
                nodes.add(f"t{lifetime_s * 1000:.0f}" if lifetime_s else "plain")
                steps.append(Step(lifetime_s, bench.load(nodes.all, rates, lasting_s, nodes=nodes)))
        return judge(steps, pipe_bps, QUICK_RATIO_MIN if bench.size.quick else RATIO_MIN)


def judge(steps: Sequence[Step], pipe_bps: float, ratio_min: float) -> Findings:
    checks, rows, csv_rows = [], [], []
    span_s = (WARM_UP_S, steps[0].evidence.lasted_s)
    found = {
        step.lifetime_s: {name: used(seen, span_s, pipe_bps) for name, seen in step.evidence.witnesses()}
        for step in steps
    }
    plain = found[0.0]
    for step in steps:
        mine = found[step.lifetime_s]
        ratio = {name: mine[name] / max(plain[name], 1e-9) for name in mine}
        denied = count(step.evidence.clients, DENIED)
        if step.lifetime_s >= ENOUGH_S:
            checks.append(
                Check(
                    f"lifetime {step.lifetime_s:g} s: at least {ratio_min:g} of the plain node's throughput",
                    all(value >= ratio_min for value in ratio.values()),
                    ", ".join(f"{name} {value:.3f}" for name, value in ratio.items()),
                )
            )
        sound = [judge_no_failures(step.evidence.clients), judge_witnesses(step.evidence)]
        checks += [one for one in sound if not one.holds]
        shown = f"{step.lifetime_s:g} s" if step.lifetime_s else "plain"
        mbps = mine["clients"] / 100 * pipe_bps / MB
        rows.append([shown, f"{mbps:.3f}", f"{ratio['clients']:.3f}", f"{mine['clients']:.1f}", str(denied)])
        csv_rows += [
            [shown, name, f"{mine[name]:.2f}", f"{ratio[name]:.4f}", str(denied)] for name in ("clients", "logs")
        ]
    lifetimes = [step.lifetime_s for step in steps if step.lifetime_s]
    rates = [found[lifetime_s]["clients"] / 100 * pipe_bps / MB for lifetime_s in lifetimes]
    plain_mbps = plain["clients"] / 100 * pipe_bps / MB
    return Findings(
        seen=f"Through a pipe of {pipe_bps / MB:g} MB/s the plain node serves {plain_mbps:.2f} MB/s of pages, and the "
        f"one with promises from {min(rates):.2f} to {max(rates):.2f} MB/s, {rates[-1] / plain_mbps:.2f} of it at a "
        f"lifetime of {lifetimes[-1]:g} s.",
        checks=checks,
        panels=[
            Panel(
                "Throughput", "lifetime, seconds", "MB/s of pages",
                [Line("with promises", lifetimes, rates, 0),
                 Line("plain", lifetimes, [plain_mbps] * len(lifetimes), 1, dashed=True)],
                log_x=True,
            )
        ],
        tables=[Table("By lifetime", ["lifetime", "MB/s", "of plain", "% of the pipe", "denied"], rows)],
        csv_head=["lifetime", "witness", "percent_of_pipe", "of_plain", "denied"],
        csv_rows=csv_rows,
        notes=["./dev bench http compares the node itself, without a pipe, with other servers."],
    )  # fmt: skip


THROUGHPUT = Throughput()
