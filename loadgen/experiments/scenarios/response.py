"""Response times under lasting overload: those of a plain node grow, those of a node with guarantees do not (figure 9).

"Plain" is a node without a specification behind a pipe of the same width: it denies nothing, and every request waits.
Both nodes get their requests at the same time, in turn, so that other work on the machine affects both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments import published_figures as published
from loadgen.experiments.evidence import SERVED
from loadgen.experiments.findings import Check, ExperimentFindings, Panel, PlotLine, Table
from loadgen.experiments.judging import HEAD_BYTES, judge_no_failures, judge_witnesses, windows
from loadgen.experiments.layout import SIDE_BY_SIDE, Layout
from loadgen.experiments.workbench import KB, MB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.experiments.evidence import Evidence, ObservedRequest
    from loadgen.experiments.workbench import Workbench

SIZE = 64 * KB  # few requests, because a plain node holds all of them
ASKED = {"/a": 0.9, "/b": 0.6}
LIFETIME_S = 4.0
SERVICE_S = 1.0  # 64 KB by channels of 16 KB in 250 ms
SLACK_S = 1.0
WITHIN = 0.99  # of served requests; the longest one shows the longest pause of the machine
PLAIN, GUARANTEES = "plain", "guarantees"
FLAT = 1.2
GROWS = 1.4


class Response(NamedTuple):
    name: str = "response"
    source: str = "figure 9"
    title: str = "Response times under an overload that lasts, beside a plain node"
    printed: str = (
        "In the paper the average response time stays fairly constant with guarantees (lifetime about 4 s) and "
        f"increases with the plain server; it prints no numbers. {published.sizes_beside(SIZE // KB)}"
    )
    layout: Layout = SIDE_BY_SIDE

    def criterion(self, *, quick: bool) -> str:
        del quick  # the same limits: they are ratios of long times
        return (
            f"With a lifetime of {LIFETIME_S:g} s, the mean response time of the last third is at most {FLAT:g} times "
            f"that of the middle third, and {100 * WITHIN:g} % are not longer than lifetime, service and {SLACK_S:g} s "
            f"together; the plain node's grows by {GROWS:g} or more."
        )

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        pipe_bps = bench.pipe(2 * MB)
        lasting_s = bench.lasting(60.0, 18.0)
        rates = {name: 2 * part * pipe_bps / (SIZE + HEAD_BYTES) for name, part in ASKED.items()}
        with bench.nodes(dict.fromkeys(ASKED, SIZE), pipe_bps, spec=None) as nodes:
            nodes.begin(PLAIN)
            nodes.begin(GUARANTEES, more=["--spec", str(bench.spec())])
            nodes.settle()
            bench.say(f"{sum(rates.values()) / 2:.0f} requests/s to each of two nodes for {lasting_s:g} s")
            both = bench.load(nodes.all, rates, lasting_s, nodes=nodes, spread="even")
        return judge(both.at(PLAIN), both.at(GUARANTEES))


def judge(plain: Evidence, qos: Evidence) -> ExperimentFindings:
    lasted_s = qos.lasted_s
    thirds = windows(0.0, lasted_s, lasted_s / 3)
    checks = [judge_no_failures(qos.clients), judge_witnesses(qos), judge_witnesses(plain)]
    growth = {}
    for witness, flat, grows in (("clients", qos.clients, plain.clients), ("logs", qos.logs, plain.logs)):
        qos_thirds, plain_thirds = ([mean_s(rows, *third) for third in thirds] for rows in (flat, grows))
        took_s = sorted(row.took_s for row in flat if row.outcome == SERVED) or [0.0]
        within_s = took_s[int(WITHIN * (len(took_s) - 1))]
        limit_s = LIFETIME_S + SERVICE_S + SLACK_S
        kept, grown = (one[2] / max(one[1], 1e-9) for one in (qos_thirds, plain_thirds))
        growth[witness] = (kept, grown, qos_thirds, plain_thirds)
        checks += [
            Check(f"{witness}: with guarantees flat (last third at most {FLAT:g} times the middle one)",
                  0 < kept <= FLAT, f"{qos_thirds[1]:.2f} s, {qos_thirds[2]:.2f} s: {kept:.2f}"),
            Check(f"{witness}: with guarantees {100 * WITHIN:g} % within {limit_s:g} s", 0 < within_s <= limit_s,
                  f"{within_s:.2f} s; the longest {took_s[-1]:.2f} s"),
            Check(f"{witness}: plain grows ({GROWS:g} times or more)", grown >= GROWS,
                  f"{plain_thirds[1]:.2f} s, {plain_thirds[2]:.2f} s: {grown:.2f}"),
        ]  # fmt: skip
    step_s = 2.0 if lasted_s > 30 else 1.0
    cut = windows(0.0, lasted_s, step_s)
    middles = [sum(window) / 2 for window in cut]
    plain_line, qos_line = ([mean_s(one.clients, *window) for window in cut] for one in (plain, qos))
    _, _, qos_thirds, plain_thirds = growth["clients"]
    return ExperimentFindings(
        seen=f"In the last third of {lasted_s:g} s the mean response of the plain node is {plain_thirds[2]:.1f} s and "
        f"still growing; with guarantees it is {qos_thirds[2]:.1f} s, as in the third before ({qos_thirds[1]:.1f} s).",
        checks=checks,
        panels=[
            Panel(
                "Mean response time of served requests, by time of request", "seconds", "seconds",
                [PlotLine("plain", middles, plain_line, 3), PlotLine("with guarantees", middles, qos_line, 0)],
                levels=[(LIFETIME_S, 0)],
            )
        ],
        tables=[
            Table("Mean response by thirds, seconds", ["node", "first", "middle", "last"],
                  [["plain", *(f"{third:.2f}" for third in plain_thirds)],
                   ["with guarantees", *(f"{third:.2f}" for third in qos_thirds)]])
        ],
        csv_head=["from_s", "to_s", "plain_mean_s", "qos_mean_s"],
        csv_rows=[
            [f"{window[0]:g}", f"{window[1]:g}", f"{a:.3f}", f"{b:.3f}"]
            for window, a, b in zip(cut, plain_line, qos_line, strict=True)
        ],
        notes=["The dashed line is the lifetime."],
    )  # fmt: skip


def mean_s(rows: Sequence[ObservedRequest], begin_s: float, end_s: float) -> float:
    """Mean response time of served requests, by time of request."""
    took = [row.took_s for row in rows if row.outcome == SERVED and begin_s <= row.asked_s < end_s]
    return sum(took) / len(took) if took else 0.0


RESPONSE = Response()
