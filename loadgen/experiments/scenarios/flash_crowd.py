"""A flash crowd on one of five equal classes: the paper's figure 6.

Before the crowd, and for the other classes all the time, the demand is below the capacity: each class demands 16 % of
the pipe. With the crowd, one class demands 160 %: it gets its fifth and what the others leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments.findings import Check, ExperimentFindings, Mark, Panel, Table
from loadgen.experiments.judging import HEAD_BYTES, bytes_served, judge_no_failures, judge_witnesses, served_of, used
from loadgen.experiments.layout import ONE_PIPE, Layout
from loadgen.experiments.timelines import CSV_HEAD, csv_rows, rate_lines
from loadgen.experiments.workbench import KB, MB
from loadgen.trace.flash_crowds import Crowd

if TYPE_CHECKING:
    from loadgen.experiments.evidence import Evidence, ObservedRequest
    from loadgen.experiments.workbench import Workbench

CROWDED = "/a"
OTHERS = ("/b", "/c", "/d", "/e")
CLASSES = (CROWDED, *OTHERS)
SIZE = 15 * KB
ASKED = 0.16
FACTOR = 10.0
KEPT_PERCENT, QUICK_KEPT_PERCENT = 98.0, 93.0
FILLED_PERCENT, QUICK_FILLED_PERCENT = 90.0, 80.0
SETTLING_S = 1.0  # the crowd is judged from here: its first responses come half a second later


class FlashCrowd(NamedTuple):
    name: str = "flash-crowd"
    source: str = "figure 6"
    title: str = "A flash crowd of ten times the requests comes to one of five equal classes"
    printed: str = (
        "The paper sends many requests for page A from second 50 to second 70 and notes that the percentages of "
        "requests served for A do not change; it prints no numbers. It did not give A what was idle."
    )
    layout: Layout = ONE_PIPE

    def criterion(self, *, quick: bool) -> str:
        return (
            f"What the others are served stays at {QUICK_KEPT_PERCENT if quick else KEPT_PERCENT:g} % or more of what "
            "it was (of what they ask for, before and during the crowd); the crowded class gets at least its fifth, "
            f"and with it the pipe is filled to {QUICK_FILLED_PERCENT if quick else FILLED_PERCENT:g} % or more."
        )

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        pipe_bps = bench.pipe(MB)
        names = bench.node_names()
        begin_s, long_s, after_s = bench.lasting(50.0, 5.0), bench.lasting(20.0, 5.0), bench.lasting(10.0, 2.0)
        rates = dict.fromkeys(CLASSES, ASKED * pipe_bps / (SIZE + HEAD_BYTES))
        crowd = Crowd(CROWDED, FACTOR, begin_s, begin_s + long_s)
        sizes = dict.fromkeys(CLASSES, SIZE)
        with bench.nodes(sizes, pipe_bps // len(names), spec=bench.spec(), cluster=len(names) > 1) as nodes:
            nodes.add(*names)
            bench.say(f"{sum(rates.values()):.0f} requests/s, and a crowd at {begin_s:g} s")
            evidence = bench.load(nodes.all, rates, begin_s + long_s + after_s, nodes=nodes, crowds=[crowd])
        return judge(evidence, (begin_s, begin_s + long_s), pipe_bps, quick=bench.size.quick)


def judge(evidence: Evidence, crowd_s: tuple[float, float], pipe_bps: float, *, quick: bool) -> ExperimentFindings:
    begin_s, end_s = crowd_s
    during_s = (begin_s + SETTLING_S, end_s)
    kept_percent = QUICK_KEPT_PERCENT if quick else KEPT_PERCENT
    filled_percent = QUICK_FILLED_PERCENT if quick else FILLED_PERCENT
    checks = [judge_no_failures(evidence.clients), judge_witnesses(evidence)]
    for witness, rows in evidence.witnesses():
        kept = {name: _kept(rows, name, begin_s, end_s) for name in OTHERS}
        least = min(kept, key=lambda name: kept[name])
        checks.append(
            Check(
                f"{witness}: the others are served {kept_percent:g} % or more of what they were",
                kept[least] >= kept_percent,
                ", ".join(f"{name} {value:.1f} %" for name, value in kept.items()),
            )
        )
        part = 100 * bytes_served(rows, *during_s).get(CROWDED, 0) / (pipe_bps * (during_s[1] - during_s[0]))
        fill = used(rows, during_s, pipe_bps)
        checks += [
            Check(f"{witness}: {CROWDED} gets at least its fifth of the pipe", part >= 20.0, f"{part:.1f} %"),
            Check(
                f"{witness}: nothing idle is kept from {CROWDED} (pipe filled to {filled_percent:g} %)",
                fill >= filled_percent,
                f"{fill:.1f} %",
            ),
        ]
    step_s = 2.0 if evidence.lasted_s > 30 else 1.0
    part = 100 * bytes_served(evidence.clients, *during_s).get(CROWDED, 0) / (pipe_bps * (during_s[1] - during_s[0]))
    all_kept = [_kept(evidence.clients, name, begin_s, end_s) for name in OTHERS]
    marks = [Mark(begin_s, "the crowd comes"), Mark(end_s, "and goes")]
    lasted_s = evidence.lasted_s
    return ExperimentFindings(
        seen=f"While ten times as many came to {CROWDED}, the others went on getting {min(all_kept):.1f} % or more of "
        f"what they got before; {CROWDED} had {part:.1f} % of the pipe: its fifth, and what was idle.",
        checks=checks,
        panels=[
            Panel(
                "Asked for", "seconds", "requests per second",
                rate_lines(evidence.clients, CLASSES, lasted_s, step_s, served=False), [], marks,
            ),
            Panel(
                "Served", "seconds", "requests per second",
                rate_lines(evidence.clients, CLASSES, lasted_s, step_s, served=True), [], marks,
            ),
        ],
        tables=[_table(evidence, begin_s, end_s)],
        csv_head=CSV_HEAD,
        csv_rows=csv_rows(evidence, CLASSES, step_s),
        notes=[f"The generator itself was late by {evidence.late_p99_ms:.1f} ms (p99)."],
    )  # fmt: skip


def _kept(rows: list[ObservedRequest], name: str, begin_s: float, end_s: float) -> float:
    """Served fraction during the crowd, in per cent of the served fraction before it."""
    before, during = served_of(rows, name, (0.0, begin_s)), served_of(rows, name, (begin_s, end_s))
    if not (before[0] and during[1]):
        return 0.0
    return 100 * (during[0] / during[1]) / (before[0] / before[1])


def _table(evidence: Evidence, begin_s: float, end_s: float) -> Table:
    rows = []
    for name in CLASSES:
        before = served_of(evidence.clients, name, (0.0, begin_s))
        during = served_of(evidence.clients, name, (begin_s, end_s))
        rows.append(
            [name, f"{before[0]} of {before[1]}", f"{before[0] / begin_s:.1f}",
             f"{during[0]} of {during[1]}", f"{during[0] / (end_s - begin_s):.1f}"]
        )  # fmt: skip
    head = ["class", "served before", "per second", "served during the crowd", "per second"]
    return Table("Before and during the crowd", head, rows)


FLASH_CROWD = FlashCrowd()
