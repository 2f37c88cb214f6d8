"""Five nodes, partitioned three to two under load and healed. Beyond the paper.

The nodes are in network namespaces, so that the network itself is cut: processes only see that messages stop. Some
pages, orders, may be served only in the primary view.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from loadgen.experiments.evidence import DENIED
from loadgen.experiments.findings import Check, ExperimentFindings, Mark, Panel, PlotLine, skip
from loadgen.experiments.judging import HEAD_BYTES, judge_no_failures, judge_witnesses, served_of, shares, windows
from loadgen.experiments.layout import TWO_SIDES, Layout
from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from loadgen.experiments.nodes import NodePlace
from loadgen.experiments.outages import OutageStage, judge_floors, stage_table
from loadgen.experiments.processes import CannotRun, wait_for
from loadgen.experiments.timelines import CSV_HEAD, csv_rows, total_line
from loadgen.experiments.workbench import KB, MB, PlannedAction
from loadgen.send.spread import parse_spread, written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from loadgen.experiments.evidence import Evidence, ObservedRequest
    from loadgen.experiments.nodes import NodeProcesses
    from loadgen.experiments.workbench import Workbench

SIZE = 16 * KB
ASKED = {"/a": 1.0, "/b": 0.7, "/orders": 0.1}
FLOORS = {"/a": 50.0, "/b": 30.0}
ORDERS = "/orders"
NODE_BPS = 2 * MB // 5
MAJORITY, MINORITY = ("n1", "n2", "n3"), ("n4", "n5")
NAMES = MAJORITY + MINORITY
CUT, SIDES, HEALED, ONE_VIEW = "cut 3 to 2", "two sides", "healed", "one view"
POINTS, QUICK_POINTS = 3.0, 6.0
ORDERS_PERCENT = 90.0  # a view may change for a moment although nothing is cut, if the machine is busy
SETTLING_S = 2.0
AGREE_S = 20.0


class Views(NamedTuple):
    """The members of each node's primary view; empty if it has none."""

    cut: dict[str, list[str]]
    healed: dict[str, list[str]]


class PartitionExperiment(NamedTuple):
    name: str = "partition"
    source: str = "beyond the paper"
    title: str = "Five nodes are cut three to two under load, and healed"
    printed: str = ""
    layout: Layout = TWO_SIDES

    def criterion(self, *, quick: bool) -> str:
        return (
            "While cut, three nodes have a primary view and two have none; /a has at least 50 % and /b 30 % of the "
            f"bytes on each side (less {QUICK_POINTS if quick else POINTS:g} points); of orders, {ORDERS_PERCENT:g} % "
            "or more are served by the three and none by the two, and no node that is in a primary view denies one. "
            "Before and after it the same holds of all five; after it there is one view of five, the order of all "
            "nodes is one, and so are their accounts."
        )

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        network = NamespaceNetwork(NAMES)
        try:
            with network:
                return self._within(bench, network)
        except NamespacesUnavailable as error:
            return skip(f"it needs network namespaces, which are not available here ({error})")

    def _within(self, bench: Workbench, network: NamespaceNetwork) -> ExperimentFindings:
        node_bps = bench.pipe(NODE_BPS)
        rates = {name: part * len(NAMES) * node_bps / (SIZE + HEAD_BYTES) for name, part in ASKED.items()}
        lasting_s, cut_s, heal_s = bench.lasting(56.0, 30.0), bench.lasting(14.0, 7.0), bench.lasting(34.0, 17.0)
        views = Views({}, {})
        with bench.nodes(dict.fromkeys(ASKED, SIZE), node_bps, spec=bench.spec(), cluster=True) as nodes:
            orders = {name: bench.folder / f"{name}.order.jsonl" for name in NAMES}
            for name in NAMES:
                place = NodePlace(network.address(name), tuple(network.at(name)), partial(network.within, name))
                node = nodes.begin(name, place, ["--order-log", str(orders[name])])
                if name == NAMES[0]:
                    node.wait()
            nodes.settle()
            bench.say(f"five nodes, {sum(rates.values()):.0f} requests/s for {lasting_s:g} s")

            def look_at_sides() -> None:
                three = [nodes[name] for name in MAJORITY]
                nodes.until(lambda node: node.members() == list(MAJORITY), "a primary view of three", three)
                two = [nodes[name] for name in MINORITY]
                nodes.until(lambda node: not node.members(), "two nodes without a primary view", two)

            def look() -> None:
                views.cut.update({node.name: node.members() for node in nodes.all})

            def look_at_all() -> None:
                nodes.settle()
                views.healed.update({node.name: node.members() for node in nodes.all})

            events = [
                PlannedAction(cut_s, CUT, lambda: network.part(MAJORITY, MINORITY)),
                PlannedAction(cut_s + 0.01, SIDES, look_at_sides),
                PlannedAction(heal_s - 1.0, "looked", look),
                PlannedAction(heal_s, HEALED, network.heal),
                PlannedAction(heal_s + 0.01, ONE_VIEW, look_at_all),
            ]
            spread = within_sides(bench.size.spread)
            evidence = bench.load(
                nodes.all, rates, lasting_s, nodes=nodes, events=events, at=network.at(), spread=spread
            )
            happened = bench.happened
            accounts = _accounts(nodes)
        stages = [
            OutageStage("whole", SETTLING_S, bench.began[CUT], 5 * node_bps),
            OutageStage("cut", happened[SIDES] + SETTLING_S, bench.began[HEALED], 5 * node_bps),
            OutageStage("healed", happened[ONE_VIEW] + SETTLING_S, lasting_s, 5 * node_bps),
        ]
        points = QUICK_POINTS if bench.size.quick else POINTS
        marks = [Mark(happened[name], name) for name in (CUT, HEALED, ONE_VIEW)]
        return judge(evidence, stages, views, [judge_order(orders), accounts], points, marks)


def within_sides(spread: str) -> str:
    """Weights of all nodes: each side gets a load in proportion to its pipes, spread within it as given.

    So both sides have requests to judge.
    """
    weights: list[float] = []
    for side in (MAJORITY, MINORITY):
        mine = parse_spread(spread, len(side))
        weights += [len(side) * weight / sum(mine) for weight in mine]
    return written(weights)


def judge(
    evidence: Evidence,
    stages: Sequence[OutageStage],
    views: Views,
    agreement: Sequence[Check],
    points: float,
    marks: Sequence[Mark],
) -> ExperimentFindings:
    whole, cut, healed = stages
    wanted = {name: list(MAJORITY) if name in MAJORITY else [] for name in NAMES}
    checks = [
        Check("while cut: exactly one primary view, of the three", views.cut == wanted, _told(views.cut)),
        Check(
            "healed: one primary view of all five at every node",
            views.healed == dict.fromkeys(NAMES, sorted(NAMES)),
            _told(views.healed),
        ),
        *agreement,
        judge_no_failures(evidence.clients),
        judge_witnesses(evidence),
    ]
    for witness, rows in evidence.witnesses():
        three, two = ([row for row in rows if row.node in side] for side in (MAJORITY, MINORITY))
        checks += [
            judge_floors(rows, whole, FLOORS, points, f"{witness}, all", ORDERS),
            judge_floors(three, cut, FLOORS, points, f"{witness}, the three", ORDERS),
            judge_floors(two, cut, FLOORS, points, f"{witness}, the two", ORDERS),
            judge_floors(rows, healed, FLOORS, points, f"{witness}, all", ORDERS),
            _judge_orders(rows, whole, f"{witness}, all", ORDERS_PERCENT),
            _judge_orders(three, cut, f"{witness}, the three", ORDERS_PERCENT),
            _judge_orders(two, cut, f"{witness}, the two", 0.0),
            _judge_orders(rows, healed, f"{witness}, all", ORDERS_PERCENT),
        ]
    denied = sum(row.class_name == ORDERS and row.outcome == DENIED and row.in_primary for row in evidence.logs)
    checks.append(Check("logs: no order is denied by a node that is in a primary view", not denied, f"{denied} denied"))
    sides = [("the three", MAJORITY, 0), ("the two", MINORITY, 3)]
    lines, order_lines = [], []
    for label, side, tone in sides:
        rows = [row for row in evidence.clients if row.node in side]
        lines.append(total_line(rows, evidence.lasted_s, 2.0, label, tone))
        cut_up = windows(0.0, evidence.lasted_s, 2.0)
        parts = [served_of(rows, ORDERS, window) for window in cut_up]
        order_lines.append(
            PlotLine(label, [sum(one) / 2 for one in cut_up], [100 * a / max(b, 1) for a, b in parts], tone)
        )
    sides_a = [
        shares([row for row in evidence.clients if row.node in side], *cut.span_s, list(FLOORS))["/a"]
        for side in (MAJORITY, MINORITY)
    ]
    turned_away = served_of([row for row in evidence.clients if row.node in MINORITY], ORDERS, cut.span_s)
    return ExperimentFindings(
        seen=f"While the network was cut, {_count(views.cut)} nodes went on as the cluster and the others each by "
        f"itself; /a had {sides_a[0]:.1f} % of what orders left on the side of the three and {sides_a[1]:.1f} % on "
        f"that of the two; the two served {turned_away[0]} of {turned_away[1]} orders. Healed, {_count(views.healed)} "
        "nodes were in one primary view.",
        checks=checks,
        panels=[
            Panel("Served, by the node that clients asked", "seconds", "MB/s of pages", lines, marks=list(marks)),
            Panel("Orders served", "seconds", "per cent of those asked for", order_lines, marks=list(marks)),
        ],
        tables=[stage_table([(evidence, stage) for stage in stages], list(ASKED))],
        csv_head=CSV_HEAD,
        csv_rows=csv_rows(evidence, list(ASKED), 2.0),
        notes=[f"The generator itself was late by {evidence.late_p99_ms:.1f} ms (p99)."],
    )


def _judge_orders(rows: Sequence[ObservedRequest], stage: OutageStage, who: str, least_percent: float) -> Check:
    """Check the fraction of served orders; if ``least_percent`` is 0, none may be served."""
    served, asked = served_of(rows, ORDERS, stage.span_s)
    percent = 100 * served / max(asked, 1)
    return Check(
        f"{who}, {stage.name}: {f'{least_percent:g} % of orders or more' if least_percent else 'no order'} served",
        asked > 0 and (percent >= least_percent if least_percent else not served),
        f"{served} of {asked}",
    )


class OrderLogLine(msgspec.Struct):
    """The fields of an order log line that have to be equal on all nodes."""

    i: int
    label: str
    sha256: str


def judge_order(files: dict[str, Path]) -> Check:
    """Each position of the order has the same entry in all logs that contain it."""
    decoder = msgspec.json.Decoder(OrderLogLine)
    order: dict[int, tuple[str, str]] = {}
    shared = differing = 0
    for file in files.values():
        for text in file.read_bytes().splitlines():
            line = decoder.decode(text)
            content = (line.label, line.sha256)
            if line.i in order:
                shared += 1
                differing += order[line.i] != content
            order[line.i] = content
    return Check(
        "all five nodes have the same order",
        shared > 0 and not differing,
        f"{len(order)} positions; {shared} lines repeat a position of another log, {differing} of them differ",
    )


def _accounts(nodes: NodeProcesses) -> Check:
    """Compare the nodes' totals of the cluster, when all requests are over."""
    told: dict[str, dict[str, Any]] = {}

    def agree() -> bool:
        for node in nodes.all:
            classes = (node.status() or {}).get("classes", {})
            told[node.name] = {
                name: {key: one["cluster"][key] for key in ("started", "started_bytes", "denied", "redirected")}
                for name, one in classes.items()
            }
        first = told[nodes.all[0].name]
        return bool(first) and all(one == first for one in told.values())

    try:
        wait_for(lambda: agree() or None, "equal accounts", AGREE_S)
        same = True
    except CannotRun:
        same = False
    shown = {name: sum(one["started"] for one in account.values()) for name, account in told.items()}
    return Check(
        "all five nodes have the same accounts", same, ", ".join(f"{name} {sum_}" for name, sum_ in shown.items())
    )


def _count(views: dict[str, list[str]]) -> int:
    """Size of the largest view on which all its members agree."""
    return max((len(view) for view in views.values() if all(views.get(name) == view for name in view)), default=0)


def _told(views: dict[str, list[str]]) -> str:
    return "; ".join(f"{name}: {' '.join(members) or 'none'}" for name, members in views.items())


PARTITION = PartitionExperiment()
