"""Wait estimate, from the starts of this node's requests and of all requests."""

from __future__ import annotations

import pytest

from qosweb.engine.local.wait_estimate import WaitEstimate, patience_ms
from qosweb.webqos.values import PPM
from tests.engine.driver import Cluster

PAGE = 10_000
CAPACITY_BPS = 1_000_000
STEP_MS = 100


def contended(nodes: str, part: int) -> tuple[Cluster, WaitEstimate]:
    """Three seconds in which all that fits was started, every `part`th of it ours; now some wait at each node."""
    cluster, outlook = Cluster("", nodes, CAPACITY_BPS // len(nodes)), WaitEstimate()
    for step in range(30):
        cluster.tell("a", step * STEP_MS, served=[(0, 10, CAPACITY_BPS // 10)])
        outlook.count_start(0, CAPACITY_BPS // 10 // part)
        outlook.advance(step * STEP_MS)
    full = {number: cluster.machine.pipes[pid].capacity_bps for number, pid in enumerate(cluster.pids.values())}
    for number, name in enumerate(nodes):
        cluster.tell(name, 3000, started=[(number + 1, 0, 10 * full[number])] * 10)
        cluster.tell(name, 3000, submitted=[(100 + one, 0, PAGE) for one in range(60)])
    return cluster, outlook


def waiting(cluster: Cluster, outlook: WaitEstimate) -> int:
    """Tells of what the machine knows to wait here."""
    here = len(cluster.machine.classes[0].queues[cluster.pids["a"]])
    for _ in range(here):
        outlook.submitted(0, PAGE)
    outlook.forget_all_untold()
    return here * PAGE


def test_single_node_counts_its_own_queue() -> None:
    cluster, outlook = contended("a", 1)
    cost = waiting(cluster, outlook)
    assert cost > 0
    assert outlook.wait(cluster.machine, 0, 3000)[0] == cost * 1000 // CAPACITY_BPS


def test_class_that_gets_more_than_its_weight_waits_less() -> None:
    """/a has a tenth, and really started half of what the pipe can do."""
    cluster, estimate = Cluster("</a>.server_resource < 10%\n", "a", CAPACITY_BPS), WaitEstimate()
    a, other = cluster.number("/a"), cluster.number("default")
    for step in range(60):
        cluster.tell("a", step * STEP_MS, served=[(a, 5, CAPACITY_BPS // 20)])
    cluster.tell("a", started=[(1, other, 10 * CAPACITY_BPS), (2, other, 10 * CAPACITY_BPS)])
    cluster.tell("a", submitted=[(3 + one, other, PAGE) for one in range(100)])
    cluster.tell("a", submitted=[(200 + one, a, PAGE) for one in range(10)])
    for _ in range(10):
        estimate.submitted(a, PAGE)
    assert cluster.machine.classes[a].waiting == 10
    assert cluster.machine.scheduler.weights[a] <= PPM // 10
    assert estimate.wait(cluster.machine, a, cluster.machine.time_ms)[0] == pytest.approx(200, rel=0.1)


@pytest.mark.parametrize("part", [1, 2, 8])
def test_wait_follows_this_nodes_part_of_the_starts(part: int) -> None:
    cluster, outlook = contended("ab", part)
    cost = waiting(cluster, outlook)
    assert outlook.wait(cluster.machine, 0, 3000)[0] == pytest.approx(part * cost * 1000 / CAPACITY_BPS, rel=0.05)


def test_all_waiting_requests_are_ahead_without_own_starts() -> None:
    cluster, outlook = contended("ab", 1_000)
    waiting(cluster, outlook)
    everywhere = cluster.machine.classes[0].waiting_cost
    assert outlook.wait(cluster.machine, 0, 3000)[0] == everywhere * 1000 // CAPACITY_BPS


def test_departed_requests_are_not_ahead() -> None:
    cluster, outlook = contended("a", 1)
    cost = waiting(cluster, outlook)
    for _ in range(cost // PAGE):
        outlook.left(0, PAGE)
    assert outlook.wait(cluster.machine, 0, 3000)[0] == 0


@pytest.mark.parametrize(
    ("lifetime_ms", "alone", "together"), [(0, 0, 0), (40, 30, 20), (500, 400, 300), (60_000, 59_900, 59_800)]
)
def test_part_of_the_lifetime_is_reserved_for_redirects(lifetime_ms: int, alone: int, together: int) -> None:
    assert patience_ms(lifetime_ms, Cluster("", "a").machine) == alone
    assert patience_ms(lifetime_ms, Cluster("", "ab").machine) == together
    assert patience_ms(lifetime_ms, Cluster("set redirect = never\n", "ab").machine) == alone


def test_class_number_of_an_earlier_policy_is_ignored() -> None:
    outlook = WaitEstimate()
    outlook.submitted(0, 10)
    outlook.forget_untold(7, 10)
    outlook.translate([1])
    outlook.left(1, 10)


def test_capacity_change_takes_effect_at_once() -> None:
    cluster, outlook = contended("a", 1)
    cost = waiting(cluster, outlook)
    assert outlook.wait(cluster.machine, 0, 3000)[0] == cost * 1000 // CAPACITY_BPS
    cluster.machine.pipes[cluster.pids["a"]].capacity_bps *= 2
    outlook.machine_changed()
    assert outlook.wait(cluster.machine, 0, 3000)[0] == cost * 1000 // (2 * CAPACITY_BPS)


@pytest.mark.parametrize("how", ["time", "policy"])
def test_own_starts_decay_and_are_reset_by_a_policy_change(how: str) -> None:
    cluster, outlook = contended("ab", 1)
    cost = waiting(cluster, outlook)
    assert outlook.wait(cluster.machine, 0, 3000)[0] == pytest.approx(cost * 1000 / CAPACITY_BPS, rel=0.05)
    if how == "time":
        outlook.advance(60_000)
    else:
        outlook.translate([0])
    everywhere = cluster.machine.classes[0].waiting_cost
    assert outlook.wait(cluster.machine, 0, 3000)[0] == everywhere * 1000 // CAPACITY_BPS > cost * 1000 // CAPACITY_BPS
