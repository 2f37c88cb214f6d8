"""Criteria of the experiments, on synthetic evidence with known results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from loadgen.experiments import comparison
from loadgen.experiments.evidence import (
    DENIED,
    FAILED,
    MOVED,
    SERVED,
    Evidence,
    ObservedRequest,
    log_lines,
    seen_in_log,
)
from loadgen.experiments.findings import FAIL, PASS, SKIPPED, Check, ExperimentFindings, skip
from loadgen.experiments.judging import (
    HEAD_BYTES,
    STRICT,
    judge_no_failures,
    judge_served,
    judge_shares,
    judge_witnesses,
    used,
    windows,
)
from loadgen.experiments.outages import OutageStage, judge_capacity, judge_floors, judge_losses
from loadgen.experiments.scenarios import (
    contention,
    flash_crowd,
    partition,
    peers,
    response,
    scale_out,
    successive_failures,
    throughput,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GUARANTEED = {"/a": 50.0, "/b": 30.0, "/c": 20.0}
SPAN_S = (2.0, 42.0)


def seen(name: str, at_s: float, what: str = SERVED, *, took_s: float = 0.1, size: int = 1000, node: str = "n1",
         sent_on: bool = False) -> ObservedRequest:  # fmt: skip
    return ObservedRequest(at_s - took_s, at_s, name, node, what, size if what == SERVED else 0, "", sent_on)


def served_at(parts: dict[str, int], seconds: range = range(42)) -> list[ObservedRequest]:
    """Each second so many answers of each class."""
    return [seen(name, second + 0.5) for second in seconds for name, count in parts.items() for _ in range(count)]


def evidence(
    clients: list[ObservedRequest], logs: list[ObservedRequest] | None = None, lasted_s: float = 42.0
) -> Evidence:
    return Evidence(clients, clients if logs is None else logs, 0.0, lasted_s, 0.0, 0)


def verdicts(rows: list[ObservedRequest]) -> list[bool]:
    return [check.holds for check in judge_shares(rows, GUARANTEED, SPAN_S, STRICT, "clients")]


def test_guaranteed_shares_hold() -> None:
    assert verdicts(served_at({"/a": 50, "/b": 30, "/c": 20})) == [True, True]


def test_a_share_that_is_short_by_three_points_fails_both_ways() -> None:
    assert verdicts(served_at({"/a": 47, "/b": 32, "/c": 21})) == [False, False]


def test_a_share_that_is_off_by_one_and_a_half_points_fails_over_the_run_only() -> None:
    assert verdicts(served_at({"/a": 485, "/b": 315, "/c": 200})) == [False, True]


def test_one_bad_window_fails_although_the_run_as_a_whole_is_right() -> None:
    short, long = {"/a": 46, "/b": 33, "/c": 21}, {"/a": 54, "/b": 27, "/c": 19}
    rows = served_at(short, range(2, 12)) + served_at(long, range(12, 22))
    rows += served_at({"/a": 50, "/b": 30, "/c": 20}, range(22, 42))
    assert verdicts(rows) == [True, False]


def test_the_first_seconds_do_not_count() -> None:
    rows = served_at({"/c": 1000}, range(2)) + served_at({"/a": 50, "/b": 30, "/c": 20}, range(2, 42))
    assert verdicts(rows) == [True, True]


def test_shares_are_of_bytes_and_not_of_requests() -> None:
    rows = [seen("/a", second + 0.5, size=5000) for second in range(42)]
    rows += [seen("/b", second + 0.5, size=1000) for second in range(42) for _ in range(3)]
    rows += [seen("/c", second + 0.5, size=500) for second in range(42) for _ in range(4)]
    assert verdicts(rows) == [True, True]


def test_where_nothing_was_served_nothing_holds() -> None:
    assert verdicts([seen("/a", 5.0, DENIED)]) == [False, False]


def test_windows_are_whole() -> None:
    assert windows(2.0, 35.0, 10.0) == [(2.0, 12.0), (12.0, 22.0), (22.0, 32.0)]


def test_always_means_every_one() -> None:
    rows = [seen("/a", 1.0) for _ in range(2000)]
    assert judge_served(rows, "/a", 100.0, "clients").holds
    assert not judge_served([*rows, seen("/a", 2.0, DENIED)], "/a", 100.0, "clients").holds
    assert not judge_served([], "/a", 100.0, "clients").holds


def test_redirected_request_counts_where_it_arrived() -> None:
    rows = [seen("/a", 1.0, MOVED), seen("/a", 1.1, node="n2")]
    assert judge_served(rows, "/a", 100.0, "logs").holds


def test_disagreement_of_logs_and_clients_is_detected() -> None:
    rows = served_at({"/a": 5})
    assert judge_witnesses(evidence(rows)).holds
    assert not judge_witnesses(evidence(rows, rows[:-1])).holds
    assert judge_witnesses(evidence(rows, rows[:-1]), lost_max=1).holds
    assert not judge_witnesses(evidence([], [])).holds


def test_a_failure_is_no_denial() -> None:
    assert judge_no_failures([seen("/a", 1.0), seen("/a", 1.0, DENIED)]).holds
    assert not judge_no_failures([seen("/a", 1.0, FAILED)]).holds
    assert not judge_no_failures([seen("/a", 1.0, "unsent")]).holds


def test_a_pipe_carries_heads_too() -> None:
    rows = [seen("/a", 1.5, size=1000 - HEAD_BYTES) for _ in range(5)]
    assert used(rows, (1.0, 2.0), 10_000) == 50.0


def test_a_verdict_needs_checks_that_hold() -> None:
    good, bad = Check("x", True, ""), Check("y", False, "")
    assert ExperimentFindings("", [good]).verdict == PASS
    assert ExperimentFindings("", [good, bad]).verdict == FAIL
    assert ExperimentFindings("", []).verdict == FAIL
    assert skip("why").verdict == SKIPPED


def test_log_lines_become_what_clients_saw() -> None:
    lines = [
        b'{"event":"policy","ts":9.0,"node":"n1","text":"..."}',
        b'{"ts":10.5,"node":"n1","class":"/a","decision":"expired","bytes":120,"total_ms":500.0}',
        b'{"ts":11.0,"node":"n1","class":"/a","decision":"served","bytes":16384,"total_ms":250.0}',
        b'{"ts":11.0,"node":"n1","cla',
    ]
    found = list(log_lines(lines))
    assert found[-1] is None
    rows = [seen_in_log(line, 10.0) for line in found if line is not None]
    assert [(row.asked_s, row.ended_s, row.outcome, row.size) for row in rows] == [
        (0.5, 1.0, DENIED, 0),
        (1.0, 1.25, SERVED, 16384),
    ]


def test_failures_belong_to_the_killed_node_and_to_its_end() -> None:
    fine = [seen("/a", second + 0.5) for second in range(40)]
    assert judge_losses(fine, [20.0]).holds
    assert judge_losses([*fine, seen("/a", 20.3, FAILED, sent_on=True)], [20.0]).holds
    assert not judge_losses([*fine, seen("/a", 20.3, FAILED)], [20.0]).holds
    assert not judge_losses([*fine, seen("/a", 31.0, FAILED, sent_on=True)], [20.0]).holds


def test_lower_bounds_and_capacity_of_a_stage() -> None:
    stage = OutageStage("two", 0.0, 10.0, 10 * (1000 + HEAD_BYTES))
    rows = served_at({"/a": 5, "/b": 4}, range(10))
    assert judge_floors(rows, stage, {"/a": 50.0, "/b": 30.0}, 2.0, "clients").holds
    assert not judge_floors(rows, stage, {"/a": 60.0, "/b": 30.0}, 2.0, "clients").holds
    assert judge_capacity(rows, stage, 90.0, "clients").holds
    assert not judge_capacity(rows, stage, 91.0, "clients").holds


@pytest.mark.parametrize(
    ("asked_a", "asked_b", "share"),
    [(0.2, 0.1, 200 / 3), (0.65, 0.35, 65.0), (0.8, 0.4, 60.0), (1.3, 0.7, 50.0), (0.3, 1.2, 30.0)],
)
def test_equal_classes_have_half_or_what_they_ask_for(asked_a: float, asked_b: float, share: float) -> None:
    assert contention.expected(asked_a, asked_b, 1.0) == pytest.approx(share)


def contended(times: float, a: int, b: int, *, denied: int = 0) -> contention.ContentionStep:
    rows = [seen("/a", s + 0.5, size=contention.SIZE) for s in range(9) for _ in range(a)]
    rows += [seen("/b", s + 0.5, size=contention.SIZE) for s in range(9) for _ in range(b)]
    rows += [seen(name, s + 0.5, DENIED) for s in range(9) for name in ("/a", "/b") for _ in range(denied)]
    return contention.ContentionStep(times, evidence(rows, lasted_s=9.0))


def test_contention_judges_both_sides_of_the_full_pipe() -> None:
    pipe_bps = 100 * (contention.SIZE + HEAD_BYTES)
    below, above = contended(0.5, 33, 17), contended(2.0, 50, 50, denied=100)
    assert contention.judge([below, above], pipe_bps, 2.0).verdict == PASS
    assert contention.judge([below, contended(2.0, 60, 40, denied=100)], pipe_bps, 2.0).verdict == FAIL
    assert contention.judge([contended(0.5, 33, 17, denied=1), above], pipe_bps, 2.0).verdict == FAIL


def crowd(others: int) -> Evidence:
    """From 50 s to 70 s a crowd comes to /a; the others ask for 10 a second, and get so many."""
    rows = []
    for second in range(80):
        during = 50 <= second < 70
        for name in flash_crowd.CLASSES:
            count = (25 if during else 10) if name == "/a" else (others if during else 10)
            asked = (100 if during else 10) if name == "/a" else 10
            rows += [seen(name, second + 0.5, size=1000 - HEAD_BYTES) for _ in range(count)]
            rows += [seen(name, second + 0.5, DENIED) for _ in range(asked - count)]
    return evidence(rows, lasted_s=80.0)


def test_a_crowd_must_not_cost_the_others() -> None:
    assert flash_crowd.judge(crowd(10), (50.0, 70.0), 65_000 * 0.75, quick=False).verdict == PASS
    assert flash_crowd.judge(crowd(9), (50.0, 70.0), 65_000 * 0.75, quick=False).verdict == FAIL


def test_idle_capacity_belongs_to_the_crowd() -> None:
    assert flash_crowd.judge(crowd(10), (50.0, 70.0), 100_000, quick=False).verdict == FAIL


def side_by_side(plain: int, other: int) -> throughput.ThroughputStep:
    rows = [seen("/a", s + 0.5, node=throughput.PLAIN) for s in range(10) for _ in range(plain)]
    rows += [seen("/a", s + 0.5, node="t500") for s in range(10) for _ in range(other)]
    return throughput.ThroughputStep(0.5, evidence(rows, lasted_s=10.0))


def test_throughput_is_beside_the_plain_node() -> None:
    assert throughput.judge([side_by_side(100, 96)], 10**6, 0.95).verdict == PASS
    assert throughput.judge([side_by_side(100, 90)], 10**6, 0.95).verdict == FAIL


def responses(first_s: float, last_s: float) -> Evidence:
    rows = []
    for second in range(60):
        took_s = first_s + (last_s - first_s) * second / 60
        rows.append(seen("/a", second + took_s, took_s=took_s))
    return evidence(rows, lasted_s=60.0)


def test_flat_beside_growing() -> None:
    assert response.judge(responses(1.0, 30.0), responses(4.5, 4.5)).verdict == PASS
    assert response.judge(responses(1.0, 30.0), responses(1.0, 5.9)).verdict == FAIL
    assert response.judge(responses(1.0, 30.0), responses(7.0, 7.0)).verdict == FAIL
    assert response.judge(responses(5.0, 5.0), responses(4.5, 4.5)).verdict == FAIL


HAPPENED = {
    "n5 killed": 13.0, "view without n5": 13.5, "n4 killed": 26.0, "view without n4": 26.5, "n3 killed": 39.0,
    "view without n3": 39.5,
}  # fmt: skip
VIEWS = [["n1", "n2", "n3", "n4"], ["n1", "n2", "n3"], ["n1", "n2"]]


def failing(parts_of_the_last: dict[str, int]) -> Evidence:
    rows = []
    for at, count in enumerate((5, 4, 3)):
        rows += served_at({"/a": 5 * count, "/b": 3 * count, "/c": 2 * count}, range(at * 13, at * 13 + 13))
    return evidence(rows + served_at(parts_of_the_last, range(39, 52)), lasted_s=52.0)


def test_shares_down_to_two_nodes() -> None:
    node_bps = 10 * (1000 + HEAD_BYTES)
    right, wrong = failing({"/a": 10, "/b": 6, "/c": 4}), failing({"/a": 7, "/b": 7, "/c": 6})
    scopes = ["cluster", "cluster"]
    judge = successive_failures.judge
    assert judge(right, HAPPENED, VIEWS, scopes, node_bps, quick=False).verdict == PASS
    assert judge(wrong, HAPPENED, VIEWS, scopes, node_bps, quick=False).verdict == FAIL
    assert judge(right, HAPPENED, VIEWS, ["cluster", "local"], node_bps, quick=False).verdict == FAIL
    assert judge(right, HAPPENED, [*VIEWS[:2], []], scopes, node_bps, quick=False).verdict == FAIL


def test_orders_that_differ_in_one_place_are_not_one(tmp_path: Path) -> None:
    def log(name: str, labels: list[str]) -> Path:
        lines = [{"i": i, "label": label, "sha256": "0", "kind": "x"} for i, label in enumerate(labels)]
        file = tmp_path / name
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return file

    first = log("n1", ["x", "y", "z"])
    assert partition.judge_order({"n1": first, "n2": log("n2", ["x", "y"])}).holds
    assert not partition.judge_order({"n1": first, "n2": log("n2", ["x", "z"])}).holds
    assert not partition.judge_order({"n1": first}).holds


GROWN = dict(zip((change.name for change in scale_out.CHANGES), (13.0, 26.0, 39.0, 52.0), strict=True))
GROWN_NODES = {0: 2, 13: 3, 26: 5, 39: 3, 52: 2}  # by the second from which there are so many
PER_NODE = {"/a": 12, "/b": 8, "/c": scale_out.PER_NODE}
GROWN_SIZES = {"/a": 1000, "/b": 1000, "/c": 40}
NODE_BPS = sum(count * (GROWN_SIZES[name] + HEAD_BYTES) for name, count in PER_NODE.items())


def growing(
    per_node: dict[str, int], nodes: dict[int, int], lasted_s: int, more: Sequence[ObservedRequest] = ()
) -> Evidence:
    """Each second each node serves so many of each class."""
    rows = list(more)
    for second in range(lasted_s):
        count = nodes[max(begin for begin in nodes if begin <= second)]
        for name, each in per_node.items():
            rows += [seen(name, second + 0.5, size=GROWN_SIZES[name]) for _ in range(each * count)]
    return evidence(rows, lasted_s=float(lasted_s))


def grown(
    per_node: dict[str, int] = PER_NODE, nodes: dict[int, int] = GROWN_NODES, more: Sequence[ObservedRequest] = ()
) -> ExperimentFindings:
    spans = [(2, 13), (15, 26), (28, 39), (41, 52), (56, 65)]
    stages = [
        OutageStage(f"{count} nodes", begin_s, end_s, count * NODE_BPS)
        for count, (begin_s, end_s) in zip(GROWN_NODES.values(), spans, strict=True)
    ]
    return scale_out.judge(
        growing(PER_NODE, {0: 1}, 10), OutageStage("1 node", 2.0, 10.0, NODE_BPS), growing(per_node, nodes, 65, more),
        stages, GROWN, [], quick=False,
    )  # fmt: skip


def broken(findings: ExperimentFindings) -> str:
    return "; ".join(check.text for check in findings.checks if not check.holds)


def test_growing_and_shrinking_cluster_keeps_its_guarantees() -> None:
    good = grown()
    assert (good.verdict, broken(good)) == (PASS, "")
    assert len(good.tables[0].rows) == 6


def test_a_cluster_that_does_not_use_what_joined_fails() -> None:
    stuck = grown(nodes=GROWN_NODES | {26: 3})
    assert "5 nodes: 75 % or more" in broken(stuck)
    assert "3 nodes: 75 % or more" not in broken(stuck)


@pytest.mark.parametrize(
    ("per_node", "what"),
    [
        ({"/a": 9, "/b": 11, "/c": 10}, "at least /a 50 %, /b 30 %"),
        ({"/a": 15, "/b": 5, "/c": 10}, "at least /a 50 %, /b 30 %"),
        ({"/a": 12, "/b": 8, "/c": 11}, "/c at most"),
        ({"/a": 12, "/b": 8, "/c": 6}, "/c at most"),
    ],
    ids=["a is short", "b is short", "c over its rate", "c far below it"],
)
def test_guarantee_broken_while_nodes_join_and_leave(per_node: dict[str, int], what: str) -> None:
    assert what in broken(grown(per_node))


def test_requests_may_be_lost_with_the_killed_node_only() -> None:
    lost = seen("/a", GROWN[scale_out.KILL] + 1.0, FAILED, sent_on=True)
    assert grown(more=[lost]).verdict == PASS
    assert "only requests redirected to a killed node are lost" in broken(
        grown(more=[lost._replace(was_sent_on=False)])
    )
    assert "only requests redirected to a killed node are lost" in broken(
        grown(more=[seen("/a", 20.0, FAILED, sent_on=True)])
    )


CUT_S = (14, 36)
CUT_STAGES = [
    OutageStage("whole", 2.0, 14.0, 1.0),
    OutageStage("cut", 16.0, 36.0, 1.0),
    OutageStage("healed", 38.0, 56.0, 1.0),
]
CUT_VIEWS = partition.Views(
    {name: list(partition.MAJORITY) if name in partition.MAJORITY else [] for name in partition.NAMES},
    dict.fromkeys(partition.NAMES, sorted(partition.NAMES)),
)
AGREED = [Check("the order is one", True, "")]


def cut_up(
    *, two: dict[str, int] | None = None, orders_of_two: str = DENIED, orders_of_three: Sequence[str] = (SERVED,) * 10
) -> Evidence:
    """Each second each node serves 5 of /a and 4 of /b, and an order; while cut the two do as they are told."""
    rows = []
    for second in range(56):
        for name in partition.NAMES:
            apart = CUT_S[0] <= second < CUT_S[1]
            alone = apart and name in partition.MINORITY
            parts = two if alone and two else {"/a": 5, "/b": 4}
            rows += [seen(one, second + 0.5, node=name) for one, count in parts.items() for _ in range(count)]
            what = orders_of_two if alone else orders_of_three[second % 10] if apart else SERVED
            order = seen(partition.ORDERS, second + 0.5, what, node=name)
            rows.append(order._replace(in_primary=not alone and what == SERVED))
    return evidence(rows, lasted_s=56.0)


def parted(found: Evidence, views: partition.Views = CUT_VIEWS, agreement: Sequence[Check] = AGREED) -> str:
    findings = partition.judge(found, CUT_STAGES, views, agreement, partition.POINTS, [])
    assert (findings.verdict == PASS) == (not broken(findings))
    return broken(findings)


def test_partitioned_cluster_keeps_its_guarantees_on_both_sides() -> None:
    assert parted(cut_up()) == ""


def test_orders_of_the_three_are_served_but_for_a_tenth() -> None:
    nine = (*(SERVED,) * 9, DENIED)
    assert parted(cut_up(orders_of_three=nine)) == ""
    assert "the three, cut: 90 % of orders or more" in parted(cut_up(orders_of_three=(*nine[1:9], DENIED, DENIED)))


def test_an_order_that_the_two_serve_is_one_too_many() -> None:
    assert "the two, cut: no order served" in parted(cut_up(orders_of_two=SERVED))


def test_an_order_that_a_primary_view_denies_is_one_too_many() -> None:
    found = cut_up(orders_of_three=(*(SERVED,) * 9, DENIED))
    rows = [row._replace(in_primary=True) for row in found.clients]
    assert "no order is denied by a node that is in a primary view" in parted(evidence(rows, lasted_s=56.0))


def test_a_side_that_breaks_its_shares_fails() -> None:
    assert "the two, cut: at least /a 50 %, /b 30 %" in parted(cut_up(two={"/a": 4, "/b": 5}))
    assert "the two, cut: at least /a 50 %, /b 30 %" in parted(cut_up(two={"/a": 7, "/b": 2}))


def test_two_primary_views_or_none_or_different_orders_fail() -> None:
    both = CUT_VIEWS._replace(cut=CUT_VIEWS.cut | {name: list(partition.MINORITY) for name in partition.MINORITY})
    assert "exactly one primary view" in parted(cut_up(), both)
    assert "exactly one primary view" in parted(
        cut_up(), CUT_VIEWS._replace(cut={name: [] for name in partition.NAMES})
    )
    assert "healed: one primary view of all five" in parted(cut_up(), CUT_VIEWS._replace(healed=CUT_VIEWS.cut))
    assert parted(cut_up(), agreement=[Check("the order is one", False, "")]) == "the order is one"


def with_peers(a: int, b: int, *, idle_b: int, server: str = peers.HERE, more: Sequence[ObservedRequest] = (),
               unlogged: int = 0) -> list[comparison.PeerMeasurement]:  # fmt: skip
    """In a pipe of 100 a second, /a asks for 60, for nothing, and for 140. ``more`` rows are of each situation."""
    found = []
    for situation, got_a, asked_a, got_b in zip(
        comparison.SITUATIONS, (a, 0, a), (60, 0, 140), (b, idle_b, b), strict=True
    ):
        rows = [seen("/a", s + 0.5, size=peers.SIZE) for s in range(10) for _ in range(got_a)]
        rows += [seen("/a", s + 0.5, DENIED) for s in range(10) for _ in range(asked_a - got_a)]
        rows += [seen("/b", s + 0.5, size=peers.SIZE) for s in range(10) for _ in range(got_b)]
        rows += more
        found.append(comparison.PeerMeasurement(server, situation, evidence(rows, rows[unlogged:], lasted_s=10.0)))
    return found


def test_a_class_that_matters_has_its_part_and_leaves_what_it_does_not_need() -> None:
    pipe_bps = 100 * (peers.SIZE + HEAD_BYTES)
    assert peers.judge(with_peers(58, 40, idle_b=98), pipe_bps, quick=False).verdict == PASS
    assert peers.judge(with_peers(50, 50, idle_b=98), pipe_bps, quick=False).verdict == FAIL
    assert peers.judge(with_peers(58, 40, idle_b=40), pipe_bps, quick=False).verdict == FAIL


@pytest.mark.parametrize("server", peers.OURS)
def test_ours_must_not_fail_and_its_logs_must_agree_and_others_are_only_counted(server: str) -> None:
    pipe_bps = 100 * (peers.SIZE + HEAD_BYTES)
    good = with_peers(58, 40, idle_b=98) + with_peers(58, 40, idle_b=98, server=peers.IN_FRONT)
    good = [one for one in good if one.server != server]
    ill = [seen("/b", 5.0, FAILED), seen("/b", 5.0, FAILED), seen("/b", 5.0, "unsent")]

    def judged(ours: list[comparison.PeerMeasurement]) -> ExperimentFindings:
        return peers.judge(sorted(good + ours, key=lambda one: one.server), pipe_bps, quick=False)

    assert judged(with_peers(58, 40, idle_b=98, server=server)).verdict == PASS
    failed = judged(with_peers(58, 40, idle_b=98, server=server, more=ill))
    assert failed.verdict == FAIL
    told = [check.text for check in failed.checks if not check.holds]
    assert told == [f"{server}, {one}: clients: every request was served or denied" for one in comparison.SITUATIONS]
    unlogged = judged(with_peers(58, 40, idle_b=98, server=server, unlogged=1))
    assert unlogged.verdict == FAIL
    assert all("logs and clients" in check.text for check in unlogged.checks if not check.holds)
    peer = comparison.PEERS_KNOWN[0].title
    fine = judged(
        with_peers(58, 40, idle_b=98, server=server) + with_peers(1, 1, idle_b=1, server=peer, more=ill, unlogged=1)
    )
    assert fine.verdict == PASS
    columns = [fine.csv_head.index(name) for name in ("failed", "unsent")]
    assert {tuple(row[at] for at in columns) for row in fine.csv_rows if row[1] == peer} == {("2", "1")}
    assert {tuple(row[at] for at in columns) for row in fine.csv_rows if row[1] != peer} == {("0", "0")}
    assert all(len(row) == len(fine.tables[1].head) == len(fine.csv_head) for row in fine.tables[1].rows)
    assert "In front of a plain node" in fine.seen


def test_what_is_said_of_a_peer_follows_from_its_numbers() -> None:
    def of(usual: tuple[float, float], idle: float, heavy: tuple[float, float], p99_s: float = 0.5) -> str:
        return peers.describe(
            {
                comparison.USUAL: comparison.PeerResult(*usual, 58.0, sum(usual), p99_s),
                comparison.IDLE: comparison.PeerResult(0.0, idle, 0.0, idle, p99_s),
                comparison.HEAVY: comparison.PeerResult(*heavy, 60.0, sum(heavy), p99_s),
            }
        )

    assert of((57, 40), 99, (60, 40)) == (
        "/a has what is due to it (57 and 60 % of the pipe); when /a is idle, 99 % of the pipe are used"
    )
    assert "/a is short: 30 % of the pipe where 58 % are due to it" in of((30, 70), 99, (70, 30))
    assert "when /a asks for more than that, /b is left 1 %" in of((58, 40), 99, (99, 1))
    assert "40 % of the pipe are used: the rest is lost" in of((58, 40), 40, (60, 40))
    assert "responses take up to 9.0 s (p99)" in of((58, 40), 99, (60, 40), 9.0)


def test_evidence_of_one_node() -> None:
    rows = [seen("/a", 1.0, node="plain"), seen("/a", 2.0, node="guarantees")]
    both = evidence(rows, lasted_s=5.0)
    assert both.at("plain") == evidence(rows[:1], lasted_s=5.0)
    assert both.at("nowhere") == evidence([], lasted_s=5.0)
