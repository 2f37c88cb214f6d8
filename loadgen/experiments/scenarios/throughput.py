"""Cost of guarantees: throughput of a plain node and of a node with guarantees, side by side, by lifetime (figure 8).

Each node has a pipe of its own, which is the bottleneck, as the paper's network was. Both get the same load at the same
time: 1.28 times the pipe's capacity, as in the paper (8 files of 128 KB a second, of which the plain server served
0.78 MB). Other work on the machine affects both.
"Plain" is a node without a specification: it has one class and denies nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments import published_figures as published
from loadgen.experiments.evidence import DENIED
from loadgen.experiments.findings import Check, ExperimentFindings, Panel, PlotLine, Table
from loadgen.experiments.judging import HEAD_BYTES, count, judge_no_failures, judge_witnesses, used
from loadgen.experiments.layout import SIDE_BY_SIDE, Layout
from loadgen.experiments.workbench import KB, MB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.experiments.evidence import Evidence, ObservedRequest
    from loadgen.experiments.workbench import Workbench

SIZE = 16 * KB
ASKED = {"/a": 0.64, "/b": 0.64}
LIFETIMES_S = (0.05, 0.1, 0.5, 1.0, 4.0)
QUICK_LIFETIMES_S = (0.1, 1.0)
ENOUGH_S = 0.5  # the ratio is judged from this lifetime on
RATIO_MIN = 0.95
QUICK_RATIO_MIN = 0.85
WARM_UP_S = 2.0
PLAIN = "plain"


class ThroughputStep(NamedTuple):
    """Both nodes under the same load."""

    lifetime_s: float
    evidence: Evidence


class Throughput(NamedTuple):
    name: str = "throughput"
    source: str = "figure 8"
    title: str = "Throughput with guarantees, by lifetime"
    printed: str = (
        f"The paper's plain server had {published.FIGURE_8_PLAIN_MBPS} MB/s and the other from "
        f"{published.FIGURE_8_QOS_MBPS[0]} to {published.FIGURE_8_QOS_MBPS[1]:.1f} MB/s, growing with the lifetime: "
        f"54 to 90 %. {published.sizes_beside(SIZE // KB)}"
    )
    layout: Layout = SIDE_BY_SIDE

    def criterion(self, *, quick: bool) -> str:
        percent = 100 * (QUICK_RATIO_MIN if quick else RATIO_MIN)
        return (
            f"From a lifetime of 0.5 s on, a node with guarantees serves {percent:g} % or more "
            "of what a plain node serves beside it through a pipe of the same width."
        )

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        pipe_bps = bench.pipe(MB)
        lasting_s = bench.lasting(10.0, 6.0)
        rates = {name: 2 * part * pipe_bps / (SIZE + HEAD_BYTES) for name, part in ASKED.items()}
        steps = []
        with bench.nodes(dict.fromkeys(ASKED, SIZE), pipe_bps, spec=None) as nodes:
            plain = nodes.begin(PLAIN).wait()
            for lifetime_s in QUICK_LIFETIMES_S if bench.size.quick else LIFETIMES_S:
                bench.say(f"lifetime {lifetime_s:g} s, {sum(rates.values()):.0f} requests/s for {lasting_s:g} s")
                spec = bench.spec(lifetime=f"{lifetime_s * 1000:.0f}ms")
                other = nodes.begin(f"t{lifetime_s * 1000:.0f}", more=["--spec", str(spec)]).wait()
                evidence = bench.load([plain, other], rates, lasting_s, nodes=nodes, spread="even")
                steps.append(ThroughputStep(lifetime_s, evidence))
                other.end()
        return judge(steps, pipe_bps, QUICK_RATIO_MIN if bench.size.quick else RATIO_MIN)


def judge(steps: Sequence[ThroughputStep], pipe_bps: float, ratio_min: float) -> ExperimentFindings:
    checks, rows, csv_rows = [], [], []
    plain_mbps, rates_mbps = [], []
    for step in steps:
        evidence = step.evidence
        span_s = (WARM_UP_S, evidence.lasted_s)
        found = {witness: _both(seen, span_s, pipe_bps) for witness, seen in evidence.witnesses()}
        ratio = {witness: other / max(plain, 1e-9) for witness, (plain, other) in found.items()}
        denied = count(evidence.clients, DENIED)
        if step.lifetime_s >= ENOUGH_S:
            checks.append(
                Check(
                    f"lifetime {step.lifetime_s:g} s: at least {ratio_min:g} of the plain node's throughput",
                    all(value >= ratio_min for value in ratio.values()),
                    ", ".join(f"{name} {value:.3f}" for name, value in ratio.items()),
                )
            )
        sound = [judge_no_failures(evidence.clients), judge_witnesses(evidence)]
        checks += [one for one in sound if not one.holds]
        plain, other = (percent / 100 * pipe_bps / MB for percent in found["clients"])
        plain_mbps.append(plain)
        rates_mbps.append(other)
        rows.append([f"{step.lifetime_s:g} s", f"{plain:.3f}", f"{other:.3f}", f"{ratio['clients']:.3f}", str(denied)])
        csv_rows += [
            [f"{step.lifetime_s:g}", witness, f"{pair[0]:.2f}", f"{pair[1]:.2f}", f"{ratio[witness]:.4f}", str(denied)]
            for witness, pair in found.items()
        ]
    lifetimes = [step.lifetime_s for step in steps]
    ratios = [other / max(plain, 1e-9) for plain, other in zip(plain_mbps, rates_mbps, strict=True)]
    return ExperimentFindings(
        seen=f"Through pipes of {pipe_bps / MB:g} MB/s the node with guarantees serves from {min(ratios):.2f} to "
        f"{max(ratios):.2f} of what the plain one beside it serves at the same time ({min(rates_mbps):.2f} to "
        f"{max(rates_mbps):.2f} MB/s).",
        checks=checks,
        panels=[
            Panel(
                "Throughput", "lifetime, seconds", "MB/s",
                [PlotLine("with guarantees", lifetimes, rates_mbps, 0),
                 PlotLine("plain, beside it", lifetimes, plain_mbps, 1, dashed=True)],
                log_x=True,
            )
        ],
        tables=[Table("By lifetime", ["lifetime", "plain, MB/s", "with guarantees, MB/s", "ratio", "denied"], rows)],
        csv_head=["lifetime_s", "witness", "plain_percent_of_pipe", "qos_percent_of_pipe", "ratio", "denied"],
        csv_rows=csv_rows,
        notes=["./dev bench http compares the node itself, without a pipe, with other servers."],
    )  # fmt: skip


def _both(seen: Sequence[ObservedRequest], span_s: tuple[float, float], pipe_bps: float) -> tuple[float, float]:
    """Pipe utilisation of the plain node and of the other."""
    plain = [row for row in seen if row.node == PLAIN]
    other = [row for row in seen if row.node != PLAIN]
    return used(plain, span_s, pipe_bps), used(other, span_s, pipe_bps)


THROUGHPUT = Throughput()
