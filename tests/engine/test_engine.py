"""Engine inside and outside a primary view: which state machine decides, what it is told, and its time."""

from __future__ import annotations

from cluster.names import ProcessId, make_view
from qosweb.engine.engine import NUMBERS_BITS, QUIET_MS, Engine
from qosweb.engine.local.requests import Deny, GoTo, Start
from qosweb.engine.replicated import entries
from qosweb.engine.replicated.entries import NodeBatch, NodeReport, NodeRestatement, PolicyText
from qosweb.engine.sim.policies import CHANNEL_BPS, POLICIES, policy_of
from tests.engine.local.test_pipe_queue import COMPILED, PAGE, A, B, Bench, Ear

OTHER = policy_of("set lifetime = 9s\n</b>.server_resource > 10%\n</new>.server_resource > 5%\n")


def together(channels: int = 1) -> Bench:
    bench = Bench(COMPILED[0], channels)
    bench.join(A, B)
    bench.engine.change_policy(COMPILED[0])
    bench.turn()
    bench.land()
    bench.of_b(report=NodeReport(CHANNEL_BPS, 0, 0, "http://b"))
    return bench


def test_a_node_begins_alone_and_serves() -> None:
    bench = Bench()
    bench.turn()
    assert bench.engine.machine is bench.engine.solo
    assert isinstance(bench.ask().decisions[0], Start)


def test_in_the_primary_view_the_replicated_machine_decides() -> None:
    bench = together()
    assert bench.engine.machine is bench.engine.replicated
    assert bench.engine.replicated.pipes[A].capacity_bps == CHANNEL_BPS
    assert bench.engine.replicated.policy.names == COMPILED[0].names


def test_request_is_redirected_to_another_node_with_room() -> None:
    bench = together()
    bench.ask()
    second = bench.ask()
    bench.turn()
    bench.land()
    assert isinstance(second.decisions[0], GoTo)
    assert second.decisions[0].url == "http://b"


def test_waiting_requests_survive_the_loss_of_the_primary_view() -> None:
    bench = together()
    bench.of_b(started=[(1, 0, 10**9)])
    first, second = bench.ask(), bench.ask()
    bench.turn()
    bench.land()
    bench.engine.leave_primary_view()
    bench.turn()
    assert bench.engine.machine.classes[0].waiting == 1
    assert first.request is not None
    bench.pipe_queue.finish(first.request, PAGE)
    bench.turn()
    assert isinstance(second.decisions[0], Start)


def test_cluster_grant_is_ignored_while_alone() -> None:
    bench = together()
    bench.of_b(started=[(1, 0, 10**9)])
    bench.ask()
    second = bench.ask()
    bench.turn()
    bench.land()
    bench.engine.leave_primary_view()
    bench.turn()
    bench.of_b(finished=[(1, 0)])  # there is room at b: it is granted there
    assert (A, second.request.number) in bench.engine.replicated.pipes[B].channels  # type: ignore[union-attr]
    assert second.decisions == []
    bench.join(A, B)
    bench.land()
    assert [type(one) for one in second.decisions] == [GoTo]


def test_grant_from_before_a_restatement_is_void() -> None:
    """It would be granted again by the restatement, and nobody would be there for that."""
    bench = together()
    bench.of_b(started=[(1, 0, 10**9)])
    first, second = bench.ask(0, 10 * PAGE), bench.ask(0, 10 * PAGE)
    bench.turn()
    bench.land()
    bench.engine.leave_primary_view()
    bench.engine.enter_primary_view()
    bench.turn()  # what we have is on its way
    bench.of_b(finished=[(1, 0)])  # before it arrives the second is granted a channel at b
    assert second.decisions == []
    bench.of_b(started=[(2, 0, 10**9)])
    bench.land()
    assert first.request is not None
    bench.pipe_queue.finish(first.request, PAGE)
    bench.later(QUIET_MS)
    bench.land()
    assert [type(one) for one in second.decisions] == [Start]
    assert second.request is not None
    bench.pipe_queue.finish(second.request, PAGE)
    bench.later(QUIET_MS)
    bench.land()
    assert bench.engine.replicated.pipes[A].channels == {}


def test_requests_served_alone_are_counted_on_return() -> None:
    bench = together(channels=3)
    bench.engine.leave_primary_view()
    bench.turn()
    fates = [bench.ask(), bench.ask()]
    bench.later(QUIET_MS)
    for one in fates:
        assert one.request is not None
        bench.pipe_queue.finish(one.request, 100)
    bench.later(QUIET_MS)
    assert sum(one.totals.started for one in bench.engine.replicated.classes) == 0
    bench.join(A, B)
    bench.land()
    totals = bench.engine.replicated.classes[0].totals
    assert (totals.started, totals.started_cost) == (2, 200)


def test_refused_batch_is_resent_without_loss() -> None:
    bench = together(channels=2)
    bench.of_b(started=[(1, 0, 10**9)])
    fates = [bench.ask(0, 10 * PAGE) for _ in range(3)]
    bench.turn()
    bench.lose()
    bench.turn()
    assert bench.flights == []  # not at once
    bench.later(QUIET_MS)
    assert len(bench.flights) == 1
    bench.land()
    pipe = bench.engine.replicated.pipes[A]
    assert len(pipe.channels) == 2
    assert len(pipe.waiting) == 1
    bench.later(QUIET_MS)
    bench.land()
    assert bench.engine.replicated.classes[0].totals.started == sum(
        isinstance(one.decisions[0], Start) for one in fates if one.decisions
    )


def test_pending_policy_is_dropped_with_the_primary_view() -> None:
    bench = together()
    bench.engine.change_policy(OTHER)
    bench.engine.leave_primary_view()
    bench.turn()
    assert bench.engine.machine.policy.names == COMPILED[0].names
    bench.join(A, B)
    bench.land()
    assert bench.engine.replicated.policy.names == COMPILED[0].names


def test_cluster_policy_reaches_a_node_that_is_alone() -> None:
    bench = together()
    waits = bench.ask(bench.engine.machine.names_now().index("/b"))
    bench.engine.leave_primary_view()
    bench.turn()
    bench.of_b(policy=PolicyText(OTHER.text, OTHER.packed))
    assert bench.engine.machine.policy.names == OTHER.names
    assert waits.request is not None
    assert OTHER.names[waits.request.class_number] == "/b"


def test_policy_change_starts_requests_at_once_while_alone() -> None:
    channel = "set lifetime = 60s\nset channel = 16KB in 160ms\n"
    policy = policy_of(channel + "</few>.num_requests < 1\n")
    bench = Bench(policy, 4)
    bench.join(A, B)
    bench.engine.change_policy(policy)
    bench.turn()
    bench.land()
    bench.engine.leave_primary_view()
    bench.turn()
    fates = [bench.ask(0, 100) for _ in range(2)]
    bench.turn()
    assert [bool(one.decisions) for one in fates] == [True, False]
    bench.apply(
        B, entries.encode(NodeBatch(0, 1, PolicyText("", policy_of(channel + "</few>.num_requests < 99\n").packed)))
    )
    assert [bool(one.decisions) for one in fates] == [True, True]


def test_lost_batch_keeps_the_class_numbers_of_its_policy() -> None:
    bench = together()
    bench.engine.outbox.served(bench.engine.machine.names_now().index("/b"), 5, 50)
    bench.later(QUIET_MS)
    assert bench.flights
    bench.of_b(policy=PolicyText(OTHER.text, OTHER.packed))
    bench.lose()
    bench.later(QUIET_MS)
    bench.land()
    totals = {one.name: one.totals.started for one in bench.engine.replicated.classes}
    assert totals["/b"] == 5


def test_restore_causes_a_restatement() -> None:
    bench = together()
    state = bench.engine.snapshot()
    other = Bench(COMPILED[1], 1)
    other.engine.restore(state)
    other.position = bench.position
    other.join(A, B)
    assert other.engine.machine.policy.names == COMPILED[0].names
    other.land()
    assert other.engine.replicated.pipes[A].capacity_bps == CHANNEL_BPS


def test_time_continues_from_cluster_time() -> None:
    bench = together()
    bench.now_ms = 1_000
    bench.engine.tick(1_000)
    bench.apply(B, entries.encode(NodeBatch(50_000, 1)))
    assert bench.engine.time_ms == 50_000
    bench.engine.tick(1_500)
    assert bench.engine.time_ms == 50_500
    bench.apply(B, entries.encode(NodeBatch(20_000, 1)))  # a clock that is behind moves nothing
    assert bench.engine.time_ms == 50_500


def test_time_alone_continues_despite_a_restore() -> None:
    bench = Bench()
    bench.later(5_000)
    bench.engine.restore(together().engine.snapshot())
    bench.later(100)
    before = bench.engine.time_ms
    bench.later(1_000)
    assert bench.engine.time_ms == before + 1_000


def test_restatement_of_an_earlier_life_does_not_count_as_applied() -> None:
    """It is ordered late. Grants that follow belong to requests of the earlier life."""
    bench = Bench()
    bench.engine = Engine(A, COMPILED[0], Ear(), is_member=True, life=1)
    bench.join(A, B)
    assert bench.pipe_queue.is_void
    for count in range(1, 10):
        bench.apply(A, entries.encode(NodeBatch(0, 0, restated=NodeRestatement(count, [], []))))
        assert bench.pipe_queue.is_void
    bench.land()
    assert not bench.pipe_queue.is_void


def test_request_numbers_are_not_reused_after_a_restart() -> None:
    lives = [Engine(A, COMPILED[0], Ear(), is_member=True, life=life) for life in (1, 2)]
    for engine in lives:
        engine.report_capacity(NodeReport(CHANNEL_BPS, 0, 0, ""))
        engine.flush(0)
    one, other = (engine.pipe_queue.start_at_once(0, 1) for engine in lives)
    assert one is not None
    assert other is not None
    assert other.number - one.number == 1 << NUMBERS_BITS


def test_node_without_a_group_keeps_its_policy() -> None:
    engine = Engine(A, COMPILED[1], Ear(), is_member=False)
    engine.report_capacity(NodeReport(10 * CHANNEL_BPS, 0, 0, ""))
    engine.flush(0)
    now = engine.machine.names_now().index("/now")
    assert engine.pipe_queue.start_at_once(now, 10) is not None
    engine.change_policy(OTHER)
    engine.flush(1)
    assert engine.machine.policy.names == OTHER.names


def test_in_a_minority_a_class_may_be_denied() -> None:
    bench = Bench(policy_of(POLICIES[1]), 2)
    bench.turn()
    fate = bench.ask(bench.engine.machine.names_now().index("/now"))
    assert isinstance(fate.decisions[0], Deny)
    assert fate.decisions[0].reason == "minority"


def test_minority_denies_waiting_requests_of_unserved_classes() -> None:
    policy = policy_of(
        "set lifetime = 9s\nset channel = 16KB in 64ms\n</a>.in_minority = deny\n</b>.server_resource > 1%\n"
    )
    bench = Bench(policy, 1)
    bench.join(A, B)
    bench.engine.change_policy(policy)
    bench.turn()
    bench.land()
    bench.of_b(report=NodeReport(CHANNEL_BPS, 0, 0, "http://b"), started=[(1, 0, 10**9)])
    bench.ask(policy.names.index("/b"))
    denied, served = bench.ask(policy.names.index("/a")), bench.ask(policy.names.index("/b"))
    bench.turn()
    bench.land()
    assert not denied.decisions
    bench.engine.leave_primary_view()
    bench.turn()
    assert isinstance(denied.decisions[0], Deny)
    assert denied.decisions[0].reason == "minority"
    assert not served.decisions


def test_calls_from_within_a_decision_are_sent_later() -> None:
    """Alone, a batch is applied at once: what a decision sets off does not get into the middle of it."""
    bench = Bench(COMPILED[0], 1)
    bench.turn()
    first = bench.ask()
    assert first.request is not None
    seen: list[bytes | None] = []
    bench.pipe_queue.submit(0, PAGE, 0, lambda _decision: seen.append(bench.engine.flush(0)))
    bench.pipe_queue.finish(first.request, PAGE)
    bench.turn()
    assert seen == [None]


def test_batches_without_waiting_requests_are_sent_soon() -> None:
    bench = together(channels=2)
    bench.later(QUIET_MS)
    bench.land()
    bench.ask()
    bench.turn()
    assert len(bench.flights) == 1  # nothing was told for a while
    bench.land()
    bench.ask()
    bench.turn()
    assert bench.flights == []
    wakes_ms = bench.engine.next_call_ms()
    assert wakes_ms is not None
    assert bench.now_ms < wakes_ms <= bench.now_ms + QUIET_MS
    bench.later(wakes_ms - bench.now_ms)
    assert len(bench.flights) == 1


def test_other_members_of_the_view() -> None:
    bench = together()
    bench.engine.view_changed(99, make_view(9, {A: 9, ProcessId("c"): 9}))
    assert sorted(pid.name for pid in bench.engine.machine.pipes) == ["a", "c"]


def test_recent_starts_decay_by_the_clock_without_entries() -> None:
    engine = together().engine
    engine.machine.classes[0].got.now += 100 * PAGE  # what an entry that starts something does
    engine.now_ms += 500
    busy = sum(engine.recent_starts_bps())
    assert busy > 0
    before = engine.machine.time_ms
    engine.now_ms += 1500
    assert 0 < sum(engine.recent_starts_bps()) < busy / 2
    engine.now_ms += 60_000
    assert sum(engine.recent_starts_bps()) == 0
    assert engine.machine.time_ms == before  # nothing was applied meanwhile
