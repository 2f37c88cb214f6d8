"""Scaling under load: one node, two, three, five, three when two leave, and two after a kill.

Beyond the paper.
All requests arrive at the nodes that stay; these redirect what the other nodes can serve.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments.findings import Check, ExperimentFindings, Mark, Panel, PlotLine
from loadgen.experiments.judging import HEAD_BYTES, judge_witnesses, shares
from loadgen.experiments.layout import CLUSTER, Layout
from loadgen.experiments.outages import OutageStage, judge_capacity, judge_floors, judge_losses, stage_table
from loadgen.experiments.timelines import CSV_HEAD, csv_rows, rate_lines, total_line
from loadgen.experiments.workbench import KB, MB, PlannedAction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from loadgen.experiments.evidence import Evidence, ObservedRequest
    from loadgen.experiments.nodes import NodeProcesses
    from loadgen.experiments.workbench import Workbench

SIZES = {"/a": 16 * KB, "/b": 16 * KB, "/c": 4 * KB}
CLASSES = tuple(SIZES)
FLOORS = {"/a": 50.0, "/b": 30.0}
NODES_MAX = 5
ASKED = {"/a": 0.75, "/b": 0.5}  # of the pipes of five nodes
LIMITED, LIMITED_PER_S, PER_NODE = "/c", 55.0, 10  # requests per second: asked for, and allowed per node
NODE_BPS = MB // 5
KILL = "n3 is killed"
USED_PERCENT, QUICK_USED_PERCENT = 75.0, 60.0
POINTS, QUICK_POINTS = 2.0, 5.0
LOST_LINES_MAX = 20  # unwritten lines of a killed node
SETTLING_S = 2.0
SLOW_S = 60.0  # extra time on a busy machine


class ClusterChange(NamedTuple):
    """A change of the cluster, and its number of nodes afterwards."""

    name: str
    what: Callable[[NodeProcesses], None]
    nodes: int


def _leave(nodes: NodeProcesses) -> None:
    leaving = [nodes["n4"], nodes["n5"]]
    for node in leaving:
        node.process.terminate()
    for node in leaving:
        node.await_end()
    nodes.settle()


CHANGES = (
    ClusterChange("n3 joins", lambda nodes: nodes.add("n3"), 3),
    ClusterChange("n4 and n5 join", lambda nodes: nodes.add("n4", "n5"), 5),
    ClusterChange("n4 and n5 leave", _leave, 3),
    ClusterChange(KILL, lambda nodes: nodes["n3"].kill(), 2),
)


class ScaleOut(NamedTuple):
    name: str = "scale-out"
    source: str = "beyond the paper"
    title: str = "Nodes join under load, leave, and one is killed"
    printed: str = ""
    layout: Layout = CLUSTER

    def criterion(self, *, quick: bool) -> str:
        points, fill = (QUICK_POINTS, QUICK_USED_PERCENT) if quick else (POINTS, USED_PERCENT)
        return (
            f"With 1, 2, 3, 5, again 3 and 2 nodes: /a has at least 50 % and /b 30 % of the bytes (less {points:g} "
            f"points), /c no more than 10 requests a second for each node, {fill:g} % or more of all pipes together "
            "are used; no request is lost but those that were sent on to the killed node."
        )

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        node_bps = bench.pipe(NODE_BPS)
        rates = {name: part * NODES_MAX * node_bps / (SIZES[name] + HEAD_BYTES) for name, part in ASKED.items()}
        rates[LIMITED] = LIMITED_PER_S * bench.size.pipe_scale
        alone_s, each_s = bench.lasting(10.0, 5.0), bench.lasting(13.0, 8.0)
        lasting_s = each_s * (len(CHANGES) + 1)
        with bench.nodes(SIZES, node_bps, spec=bench.spec(), cluster=True) as nodes:
            nodes.add("n1")
            bench.say(f"one node, {sum(rates.values()):.0f} requests/s for {alone_s:g} s")
            alone = bench.load(nodes.all, rates, alone_s, nodes=nodes)
            nodes.add("n2")
            bench.say(f"two nodes, {sum(rates.values()):.0f} requests/s for {lasting_s:g} s")
            events = [
                PlannedAction(at * each_s, change.name, partial(change.what, nodes))
                for at, change in enumerate(CHANGES, 1)
            ]
            targets = list(nodes.all)
            grown = bench.load(
                targets, rates, lasting_s + SLOW_S, nodes=nodes, events=events, after_s=each_s + SETTLING_S
            )
        began, happened = bench.began, bench.happened
        begins = [SETTLING_S, *(happened[change.name] + SETTLING_S for change in CHANGES)]
        begins[-1] += SETTLING_S  # the other nodes have to notice first
        ends = [*(began[change.name] for change in CHANGES), grown.lasted_s]
        counts = [2, *(change.nodes for change in CHANGES)]
        stages = [
            OutageStage(f"{count} nodes" + (" again" if count in counts[:at] else ""), begin_s, end_s, count * node_bps)
            for at, (count, begin_s, end_s) in enumerate(zip(counts, begins, ends, strict=True))
        ]
        first = OutageStage("1 node", SETTLING_S, alone_s, node_bps)
        starts = [Mark(began[change.name], "start") for change in CHANGES if change.name.endswith(("join", "joins"))]
        return judge(alone, first, grown, stages, happened, starts, quick=bench.size.quick)


def judge(
    alone: Evidence,
    first: OutageStage,
    grown: Evidence,
    stages: Sequence[OutageStage],
    happened: dict[str, float],
    starts: Sequence[Mark],
    *,
    quick: bool,
) -> ExperimentFindings:
    checks = [
        judge_losses([*alone.clients, *grown.clients], [happened[KILL]]),
        judge_witnesses(alone),
        judge_witnesses(grown, LOST_LINES_MAX),
    ]
    points, fill = (QUICK_POINTS, QUICK_USED_PERCENT) if quick else (POINTS, USED_PERCENT)
    parts = [(alone, first, 1), *((grown, stage, int(stage.pipe_bps // first.pipe_bps)) for stage in stages)]
    for evidence, stage, count in parts:
        for witness, rows in evidence.witnesses():
            checks += [
                judge_floors(rows, stage, FLOORS, points, witness),
                judge_capacity(rows, stage, fill, witness),
                _judge_limit(rows, stage, count, witness),
            ]
    served = [_served_mbps(evidence.clients, stage) for evidence, stage, _ in parts]
    marks = [*starts, *(Mark(when_s, what) for what, when_s in happened.items())]
    pipes_x, pipes_y = [0.0], [stages[0].pipe_bps / MB]
    for stage, when_s in zip(stages[1:], sorted(happened.values()), strict=True):
        pipes_x += [when_s, when_s]
        pipes_y += [pipes_y[-1], stage.pipe_bps / MB]
    pipes = PlotLine("all pipes", [*pipes_x, grown.lasted_s], [*pipes_y, pipes_y[-1]], 6, dashed=True)
    got = [shares(evidence.clients, *stage.span_s, CLASSES) for evidence, stage, _ in parts]
    least = {name: min(one[name] for one in got) for name in FLOORS}
    failed = sum(row.outcome == "failed" for row in grown.clients)
    return ExperimentFindings(
        seen=f"With 1, 2, 3, 5, again 3 and 2 nodes {', '.join(f'{one:.2f}' for one in served[:-1])} and "
        f"{served[-1]:.2f} MB/s are served, of {first.pipe_bps / MB:g} MB/s a node; /a has {least['/a']:.1f} % of the "
        f"bytes or more in every stage, /b {least['/b']:.1f} %, and {failed} of {len(grown.clients)} requests were "
        "lost with the killed node.",
        checks=checks,
        panels=[
            Panel("Served, by clients", "seconds", "MB/s of pages",
                  [total_line(grown.clients, grown.lasted_s, 2.0, "served", 0), pipes], marks=marks),
            Panel("Served by class", "seconds", "requests per second",
                  rate_lines(grown.clients, CLASSES, grown.lasted_s, 2.0, served=True), marks=marks),
        ],
        tables=[stage_table([(alone, first), *((grown, stage) for stage in stages)], CLASSES)],
        csv_head=CSV_HEAD,
        csv_rows=csv_rows(grown, CLASSES, 2.0),
        notes=[
            "Between its start and its joining a node loads its program, on the same processors as all others.",
            f"The generator itself was late by {grown.late_p99_ms:.1f} ms (p99).",
        ],
    )  # fmt: skip


def _judge_limit(rows: Sequence[ObservedRequest], stage: OutageStage, count: int, witness: str) -> Check:
    begin_s, end_s = stage.span_s
    served = sum(
        row.outcome == "served" and row.class_name == LIMITED and begin_s <= row.ended_s < end_s for row in rows
    )
    per_s, allowed = served / (end_s - begin_s), PER_NODE * count
    return Check(
        f"{witness}, {stage.name}: {LIMITED} at most {allowed} requests/s, and 80 % of what that allows",
        0.8 * min(allowed, LIMITED_PER_S) <= per_s <= 1.02 * allowed,
        f"{per_s:.1f} requests/s of {LIMITED_PER_S:g} asked for",
    )


def _served_mbps(rows: Sequence[ObservedRequest], stage: OutageStage) -> float:
    begin_s, end_s = stage.span_s
    return sum(row.size for row in rows if begin_s <= row.ended_s < end_s) / (end_s - begin_s) / MB


SCALE_OUT = ScaleOut()
