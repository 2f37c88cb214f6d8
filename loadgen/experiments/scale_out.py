"""A cluster that grows and shrinks under load: one node, two, three, and two again after a kill. Beyond the paper.

All requests arrive at the nodes that stay; what the others can serve is sent on to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments.bench import KB, MB, Event
from loadgen.experiments.course import CSV_HEAD, csv_rows, rate_lines, total_line
from loadgen.experiments.findings import Check, Findings, Line, Mark, Panel
from loadgen.experiments.judging import HEAD_BYTES, judge_witnesses, shares
from loadgen.experiments.outages import (
    Stage,
    judge_capacity,
    judge_floors,
    judge_losses,
    stage_table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.experiments.bench import Bench
    from loadgen.experiments.evidence import Evidence, Seen

SIZES = {"/a": 16 * KB, "/b": 16 * KB, "/c": 4 * KB}
CLASSES = tuple(SIZES)
FLOORS = {"/a": 50.0, "/b": 30.0}
ASKED = {"/a": 1.0, "/b": 0.7}  # of the pipes of three nodes
LIMITED, LIMITED_PER_S, PER_NODE = "/c", 50.0, 20  # requests per second: asked for, and allowed per node
NODE_BPS = MB // 2
JOIN, KILL = "n3 joins", "n3 is killed"
USED_PERCENT, QUICK_USED_PERCENT = 75.0, 60.0
POINTS, QUICK_POINTS = 2.0, 5.0
LOST_LINES_MAX = 20  # that a killed node had not written
SETTLING_S = 2.0


class ScaleOut(NamedTuple):
    name: str = "scale-out"
    source: str = "beyond the paper"
    title: str = "A node joins under load, and one is killed"
    criterion: str = (
        "With 1, 2, 3 and again 2 nodes: /a has at least 50 % and /b 30 % of the bytes (less 2 points), /c no more "
        "than 20 requests a second for each node, 75 % or more of all pipes together are used; no request is lost but "
        "those that were sent on to the killed node."
    )
    printed: str = ""

    def carry_out(self, bench: Bench) -> Findings:
        node_bps = bench.pipe(NODE_BPS)
        rates = {name: part * 3 * node_bps / (SIZES[name] + HEAD_BYTES) for name, part in ASKED.items()}
        rates[LIMITED] = LIMITED_PER_S
        alone_s, lasting_s = bench.lasting(12.0, 6.0), bench.lasting(54.0, 32.0)
        join_s, kill_s = bench.lasting(12.0, 5.0), bench.lasting(38.0, 22.0)
        with bench.nodes(SIZES, node_bps, spec=bench.spec(), cluster=True) as nodes:
            nodes.add("n1")
            bench.say(f"one node, {sum(rates.values()):.0f} requests/s for {alone_s:g} s")
            alone = bench.load(nodes.all, rates, alone_s, nodes=nodes)
            nodes.add("n2")
            bench.say(f"two nodes, {sum(rates.values()):.0f} requests/s for {lasting_s:g} s")

            def kill() -> None:
                nodes["n3"].kill()

            events = [Event(join_s, JOIN, lambda: nodes.add("n3")), Event(kill_s, KILL, kill)]
            grown = bench.load(nodes.all, rates, lasting_s, nodes=nodes, events=events)
        happened = bench.happened
        stages = [
            Stage("two nodes", SETTLING_S, join_s, 2 * node_bps),
            Stage("three nodes", happened[JOIN] + SETTLING_S, happened[KILL], 3 * node_bps),
            Stage("two again", happened[KILL] + 2 * SETTLING_S, lasting_s, 2 * node_bps),
        ]
        first = Stage("one node", SETTLING_S, alone_s, node_bps)
        return judge(alone, first, grown, stages, happened, quick=bench.size.quick)


def judge(
    alone: Evidence,
    first: Stage,
    grown: Evidence,
    stages: Sequence[Stage],
    happened: dict[str, float],
    *,
    quick: bool,
) -> Findings:
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
    marks = [Mark(when_s, what) for what, when_s in happened.items()]
    pipes_x, pipes_y = [0.0], [stages[0].pipe_bps / MB]
    for stage, when_s in zip(stages[1:], (happened[JOIN], happened[KILL]), strict=True):
        pipes_x += [when_s, when_s]
        pipes_y += [pipes_y[-1], stage.pipe_bps / MB]
    pipes = Line("all pipes", [*pipes_x, grown.lasted_s], [*pipes_y, pipes_y[-1]], 6, dashed=True)
    got = [shares(evidence.clients, *stage.span_s, CLASSES) for evidence, stage, _ in parts]
    least = {name: min(one[name] for one in got) for name in FLOORS}
    failed = sum(row.what == "failed" for row in grown.clients)
    return Findings(
        seen=f"With 1, 2, 3 and again 2 nodes {', '.join(f'{one:.2f}' for one in served[:-1])} and {served[-1]:.2f} "
        f"MB/s are served, of {first.pipe_bps / MB:g} MB/s a node; /a has {least['/a']:.1f} % of the bytes or more in "
        f"every stage, /b {least['/b']:.1f} %, and {failed} of {len(grown.clients)} requests were lost with the killed "
        "node.",
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
        notes=[f"The generator itself was late by {grown.late_p99_ms:.1f} ms (p99)."],
    )  # fmt: skip


def _judge_limit(rows: Sequence[Seen], stage: Stage, count: int, witness: str) -> Check:
    begin_s, end_s = stage.span_s
    served = sum(row.what == "served" and row.class_name == LIMITED and begin_s <= row.ended_s < end_s for row in rows)
    per_s, allowed = served / (end_s - begin_s), PER_NODE * count
    return Check(
        f"{witness}, {stage.name}: {LIMITED} at most {allowed} requests/s, and 80 % of what that allows",
        0.8 * min(allowed, LIMITED_PER_S) <= per_s <= 1.02 * allowed,
        f"{per_s:.1f} requests/s of {LIMITED_PER_S:g} asked for",
    )


def _served_mbps(rows: Sequence[Seen], stage: Stage) -> float:
    begin_s, end_s = stage.span_s
    return sum(row.size for row in rows if begin_s <= row.ended_s < end_s) / (end_s - begin_s) / MB


SCALE_OUT = ScaleOut()
