"""Five nodes fail one after the other, down to two, and the cluster's queue keeps working. Beyond the paper.

A static majority of five is three, so a static quorum would have stopped. Instead, primary views follow each other,
each with a majority of the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments.findings import Check, ExperimentFindings, Mark, Panel
from loadgen.experiments.judging import HEAD_BYTES, farthest, judge_witnesses, shares
from loadgen.experiments.layout import CLUSTER, Layout
from loadgen.experiments.outages import OutageStage, judge_capacity, judge_fixed, judge_losses, stage_table
from loadgen.experiments.timelines import CSV_HEAD, csv_rows, share_lines, total_line
from loadgen.experiments.workbench import KB, MB, PlannedAction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from loadgen.experiments.evidence import Evidence
    from loadgen.experiments.nodes import NodeProcesses
    from loadgen.experiments.workbench import Workbench

GUARANTEED = {"/a": 50.0, "/b": 30.0, "/c": 20.0}
ASKED = {"/a": 0.8, "/b": 0.6, "/c": 0.6}
SIZE = 16 * KB
NODE_BPS = MB // 5
NAMES = ("n1", "n2", "n3", "n4", "n5")
SURVIVORS = NAMES[:2]
USED_PERCENT, QUICK_USED_PERCENT = 75.0, 60.0
POINTS, QUICK_POINTS = 2.0, 6.0
LOST_LINES_MAX = 30
SETTLING_S = 1.5


class SuccessiveFailures(NamedTuple):
    name: str = "successive-failures"
    source: str = "beyond the paper"
    title: str = "Five nodes are killed one after the other, down to two"
    printed: str = ""
    layout: Layout = CLUSTER

    def criterion(self, *, quick: bool) -> str:
        points, fill = (QUICK_POINTS, QUICK_USED_PERCENT) if quick else (POINTS, USED_PERCENT)
        return (
            "After each kill there is a primary view of all that are left, down to two of five; in every stage the "
            f"shares are within {points:g} points and {fill:g} % or more of the remaining pipes are used; no request "
            "is lost but those that were sent on to a killed node."
        )

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        node_bps = bench.pipe(NODE_BPS)
        rates = {name: part * len(NAMES) * node_bps / (SIZE + HEAD_BYTES) for name, part in ASKED.items()}
        each_s = bench.lasting(13.0, 8.0)
        views: list[list[str]] = []
        with bench.nodes(dict.fromkeys(ASKED, SIZE), node_bps, spec=bench.spec(), cluster=True) as nodes:
            nodes.add(*NAMES)
            bench.say(f"five nodes, {sum(rates.values()):.0f} requests/s for {4 * each_s:g} s")
            events = []
            for at, victim in enumerate(reversed(NAMES[2:]), 1):
                events += [
                    PlannedAction(at * each_s, f"{victim} killed", nodes[victim].kill),
                    PlannedAction(at * each_s + 0.01, f"view without {victim}", _settle(nodes, views)),
                ]
            targets = [nodes[name] for name in SURVIVORS]
            evidence = bench.load(targets, rates, 4 * each_s, nodes=nodes, events=events)
            last = [(nodes[name].status() or {}).get("scope", "no answer") for name in SURVIVORS]
        return judge(evidence, bench.happened, views, last, node_bps, quick=bench.size.quick)


def _settle(nodes: NodeProcesses, views: list[list[str]]) -> Callable[[], None]:
    def settle() -> None:
        nodes.settle()
        views.append(nodes.alive()[0].members())

    return settle


def judge(
    evidence: Evidence,
    happened: dict[str, float],
    views: Sequence[list[str]],
    scopes: Sequence[str],
    node_bps: float,
    *,
    quick: bool,
) -> ExperimentFindings:
    kills_s = [when_s for what, when_s in happened.items() if what.endswith("killed")]
    formed_s = [when_s for what, when_s in happened.items() if what.startswith("view")]
    begins = [SETTLING_S, *(when_s + SETTLING_S for when_s in formed_s)]
    ends = [*kills_s, evidence.lasted_s]
    stages = [
        OutageStage(f"{len(NAMES) - at} nodes", begin_s, end_s, (len(NAMES) - at) * node_bps)
        for at, (begin_s, end_s) in enumerate(zip(begins, ends, strict=True))
    ]
    wanted = [list(NAMES[: len(NAMES) - at]) for at in range(1, len(stages))]
    took = [formed - kill for formed, kill in zip(formed_s, kills_s, strict=True)]
    checks = [
        Check(
            "after each kill a primary view of all that are left, the last of two of five",
            list(views) == wanted,
            "; ".join(" ".join(view) for view in views) + f" after {', '.join(f'{one:.1f} s' for one in took)}",
        ),
        Check("the last two still decide as a cluster", set(scopes) == {"cluster"}, ", ".join(scopes)),
        judge_losses(evidence.clients, kills_s),
        judge_witnesses(evidence, LOST_LINES_MAX),
    ]
    points, fill = (QUICK_POINTS, QUICK_USED_PERCENT) if quick else (POINTS, USED_PERCENT)
    for stage in stages:
        for witness, rows in evidence.witnesses():
            checks += [
                judge_fixed(rows, stage, GUARANTEED, points, witness),
                judge_capacity(rows, stage, fill, witness),
            ]
    got = [shares(evidence.clients, *stage.span_s, list(GUARANTEED)) for stage in stages]
    off = max(abs(farthest(one, GUARANTEED)[1]) for one in got)
    failed = sum(row.outcome == "failed" for row in evidence.clients)
    marks = [Mark(when_s, what) for what, when_s in happened.items() if what.endswith("killed")]
    classes = list(GUARANTEED)
    return ExperimentFindings(
        seen=f"Three of five nodes were killed one by one; a view of those left was seen {max(took):.1f} s after each "
        f"at the latest, down to {len(views[-1])} nodes, where a static majority of five would have stopped. The share "
        f"that was farthest off in a stage was so by {off:.2f} points; {failed} of {len(evidence.clients)} requests "
        "were lost with killed nodes.",
        checks=checks,
        panels=[
            Panel("Served bytes, by clients", "seconds", "per cent",
                  share_lines(evidence.clients, classes, evidence.lasted_s, 2.0),
                  [(GUARANTEED[name], tone) for tone, name in enumerate(classes)], marks),
            Panel("Served", "seconds", "MB/s of pages",
                  [total_line(evidence.clients, evidence.lasted_s, 2.0, "all classes", 0)], marks=marks),
        ],
        tables=[stage_table([(evidence, stage) for stage in stages], classes)],
        csv_head=CSV_HEAD,
        csv_rows=csv_rows(evidence, classes, 2.0),
        notes=[f"The generator itself was late by {evidence.late_p99_ms:.1f} ms (p99)."],
    )  # fmt: skip


SUCCESSIVE_FAILURES = SuccessiveFailures()
