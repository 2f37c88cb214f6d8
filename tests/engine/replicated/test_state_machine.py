"""State machine, driven by hand: which requests start, wait, or are redirected."""

from __future__ import annotations

import sys
from typing import Any

from qosweb.engine.replicated import entries
from qosweb.engine.replicated.effects import Granted, Reserved
from qosweb.engine.replicated.entries import UNUSED, NodeReport, NodeRestatement, PolicyText
from tests.engine.driver import Cluster, policy_of

SPEC = """\
set lifetime = 500ms
set channel = 16KB in 64ms
</a>.server_resource = 25%
</b>.server_resource = 75%
</now>.available = always
</few>.num_requests < 2
"""
PAGE = 16_384  # a channel of 256,000 bytes a second holds it for 64 ms


def full(nodes: str = "a", channels: int = 2) -> Cluster:
    """A cluster whose pipes hold so many channels, all in use by requests 1, 2, ... of their nodes."""
    cluster = Cluster(SPEC, nodes, capacity_bps=256_000 * channels)
    for node in nodes:
        cluster.tell(node, started=[(number, cluster.number("default"), 10**7) for number in range(1, channels + 1)])
    return cluster


def grants(cluster: Cluster) -> list[tuple[int, str]]:
    return [(one.number, one.at.name) for one in cluster.effects if isinstance(one, Granted)]


def test_request_starts_in_its_own_entry_if_there_is_room() -> None:
    cluster = Cluster(SPEC, capacity_bps=512_000)
    cluster.tell("a", submitted=[(1, cluster.number("/a"), PAGE)])
    assert grants(cluster) == [(1, "a")]
    assert cluster.running("a") == [("a", 1)]


def test_the_classes_that_wait_start_in_the_ratio_of_their_shares() -> None:
    cluster = full(channels=1)
    a, b = cluster.number("/a"), cluster.number("/b")
    cluster.tell("a", submitted=[(100 + i, a, PAGE) for i in range(400)] + [(1000 + i, b, PAGE) for i in range(400)])
    running = [1]
    started = {a: 0, b: 0}
    for step in range(200):
        cluster.effects.clear()
        cluster.tell("a", 64 * step, finished=[(number, PAGE) for number in running])
        running = [number for number, _ in grants(cluster)]
        for number in running:
            started[a if number < 1000 else b] += 1
    assert abs(started[b] - 3 * started[a]) <= 3


def test_always_takes_what_it_needs_and_leaves_the_others_their_shares() -> None:
    """Its requests have to wait for a moment, as everybody's; that is no reason to divide nothing among the others."""
    cluster = full(channels=1)
    a, b, now = (cluster.number(name) for name in ("/a", "/b", "/now"))
    cluster.tell("a", submitted=[(100 + i, a, PAGE) for i in range(400)] + [(1000 + i, b, PAGE) for i in range(400)])
    running = [1]
    started = {a: 0, b: 0, now: 0}
    for step in range(200):
        cluster.effects.clear()
        more = [(2000 + step, now, PAGE)] if step % 5 == 0 else []
        cluster.tell("a", 64 * step, submitted=more)
        cluster.tell("a", 64 * step, finished=[(number, PAGE) for number in running])
        running = [number for number, _ in grants(cluster)]
        for number in running:
            started[now if number >= 2000 else b if number >= 1000 else a] += 1
    assert started[now] == 40
    assert abs(started[b] - 3 * started[a]) <= 3


def test_always_available_requests_overtake_earlier_ones() -> None:
    cluster = full(channels=1)
    cluster.tell("a", submitted=[(10, cluster.number("/a"), PAGE), (11, cluster.number("/now"), PAGE)])
    cluster.tell("a", finished=[(1, PAGE)])
    assert grants(cluster)[0] == (11, "a")


def test_request_is_redirected_to_a_node_with_room() -> None:
    cluster = full("ab")
    cluster.tell("a", submitted=[(10, cluster.number("/a"), PAGE)])
    assert grants(cluster) == []
    cluster.tell("b", finished=[(1, PAGE)])
    assert grants(cluster) == [(10, "b")]
    assert ("a", 10) in cluster.running("b")
    cluster.tell("b", visited=[(cluster.pids["a"], 10, PAGE)])
    assert ("a", 10) not in cluster.running("b")


def test_receiving_node_gets_the_reservation() -> None:
    cluster = full("ab")
    cluster.tell("b", submitted=[(10, cluster.number("/a"), PAGE)])
    cluster.tell("a", finished=[(1, PAGE)])
    reserved = [one for one in cluster.effects if isinstance(one, Reserved)]
    assert [(one.owner.name, one.number, one.cost) for one in reserved] == [("b", 10, PAGE)]


def test_cancellation_releases_a_grant_at_any_node() -> None:
    cluster = full("ab")
    cluster.tell("a", submitted=[(10, cluster.number("/a"), PAGE)])
    cluster.tell("b", finished=[(1, PAGE)])
    cluster.tell("a", cancelled=[10])
    assert ("a", 10) not in cluster.running("b")


def test_a_faulty_node_that_uses_a_number_again_leaks_no_channel() -> None:
    cluster = full("ab")
    for done in (1, 2):
        cluster.tell("a", submitted=[(10, cluster.number("/a"), PAGE)])
        cluster.tell("b", finished=[(done, PAGE)])
    assert grants(cluster) == [(10, "b"), (10, "b")]
    pipe = cluster.machine.pipes[cluster.pids["b"]]
    assert pipe.used_bps == sum(channel.rate_bps for channel in pipe.channels.values())
    cluster.tell("b", visited=[(cluster.pids["a"], 10, PAGE)])
    assert (pipe.used_bps, pipe.channels) == (0, {})


def test_unused_redirect_costs_nothing() -> None:
    cluster = full("ab")
    one = cluster.machine.classes[cluster.number("/a")]
    cluster.tell("a", submitted=[(10, cluster.number("/a"), PAGE)])
    before = one.virtual
    cluster.tell("b", finished=[(1, PAGE)])
    assert one.virtual > before
    cluster.tell("b", visited=[(cluster.pids["a"], 10, UNUSED)])
    assert one.virtual == before
    assert ("a", 10) not in cluster.running("b")


def test_without_redirection_a_request_waits_where_it_is() -> None:
    cluster = Cluster("set redirect = never\nset channel = 16KB in 64ms\n</a>.server_resource > 1%\n", "ab", 256_000)
    cluster.tell("a", started=[(1, 0, 10**7)])
    cluster.tell("a", submitted=[(10, cluster.number("/a"), PAGE)])
    assert grants(cluster) == []


def test_rate_bound_holds_without_contention() -> None:
    cluster = Cluster(SPEC)
    few = cluster.number("/few")
    cluster.tell("a", 0, submitted=[(number, few, PAGE) for number in range(10)])
    started_ms = [0] * len(grants(cluster))
    cluster.check_every = 50
    for at_ms in range(4001):
        cluster.tell("a", at_ms)
        started_ms += [at_ms] * (len(grants(cluster)) - len(started_ms))
    # A full bucket holds what 100 ms bring, a fifth of a request: the second waits for the rest, the others for 500 ms.
    assert started_ms == [0, *range(401, 4001, 500)]


def test_leaving_members_lose_their_requests_and_channels() -> None:
    cluster = full("abc")
    cluster.tell("b", submitted=[(10, cluster.number("/a"), PAGE)])
    cluster.view("ac")
    assert all(one.waiting == 0 for one in cluster.machine.classes)
    assert sorted(pid.name for pid in cluster.machine.pipes) == ["a", "c"]


def test_returning_member_restates_its_requests() -> None:
    cluster = full("ab")
    cluster.view("a")
    cluster.view("ab")
    assert cluster.running("b") == []
    a = cluster.number("/a")
    cluster.tell("b", restated=NodeRestatement(1, [(7, a, PAGE)], [(8, a, PAGE)]), report=NodeReport(512_000, 0, 0, ""))
    assert cluster.running("b") == [("b", 7), ("b", 8)]


def test_policy_change_keeps_waiting_requests_by_class_name() -> None:
    cluster = full(channels=1)
    cluster.tell("a", submitted=[(10, cluster.number("/a"), PAGE), (11, cluster.number("/b"), PAGE)])
    policy = policy_of("</x>.server_resource > 1%\n</b>.server_resource = 50%\n")
    cluster.tell("a", policy=PolicyText(policy.text, policy.packed))
    assert cluster.machine.names_now() == policy.names
    waiting = {one.name: one.waiting for one in cluster.machine.classes}
    assert waiting == {"/x": 0, "/b": 1, "default": 1}


def test_numbers_of_an_earlier_policy_still_mean_the_same_classes() -> None:
    cluster = full(channels=1)
    b = cluster.number("/b")
    policy = policy_of("</b>.server_resource = 50%\n")
    cluster.tell("a", policy=PolicyText(policy.text, policy.packed))
    late = entries.NodeBatch(0, cluster.machine.generation - 1, submitted=[(20, b, PAGE), (21, 99, PAGE)])
    cluster.machine.apply(cluster.position + 1, cluster.pids["a"], entries.encode(late))
    cluster.check()
    assert {one.name: one.waiting for one in cluster.machine.classes} == {"/b": 1, "default": 1}


def test_what_is_read_back_goes_on_alike() -> None:
    cluster = full("ab")
    a, b = cluster.number("/a"), cluster.number("/b")
    cluster.tell("a", 10, submitted=[(10 + i, a, PAGE + i) for i in range(9)] + [(30 + i, b, PAGE) for i in range(9)])
    other = full("ab")
    other.machine.restore(cluster.machine.snapshot())
    other.position = cluster.position
    for step in range(1, 3):
        for one in (cluster, other):
            one.tell("b", 10 + 64 * step, finished=[(step, PAGE)])
            one.tell("a", 10 + 64 * step, finished=[(step, PAGE)], cancelled=[17])
        assert cluster.machine.snapshot() == other.machine.snapshot()


def test_choosing_costs_the_same_however_many_wait() -> None:
    """Counted in steps of the interpreter, not in seconds."""

    def steps(waiting: int) -> int:
        cluster = full(channels=1)
        cluster.check_every = 1_000
        cluster.tell("a", submitted=[(100 + i, cluster.number("/a"), PAGE) for i in range(waiting)])
        count = 0

        def trace(*_: object) -> Any:
            nonlocal count
            count += 1
            return trace

        sys.settrace(trace)
        try:
            cluster.tell("a", finished=[(1, PAGE)])
        finally:
            sys.settrace(None)
        return count

    assert steps(20_000) <= steps(10) + 20
