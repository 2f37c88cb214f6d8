"""Slots at one node of a group: what it knows of them when it leaves and enters the primary view, or restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.names import ProcessId, make_view
from qosweb.engine.engine import QUIET_MS, Engine
from qosweb.engine.local.requests import OVER, RUNNING, WAITING, Deny, Request
from qosweb.engine.local.server_laws import ServerLaws
from qosweb.engine.replicated import entries
from qosweb.engine.replicated.entries import NodeReport, NodeRestatement, PolicyText
from qosweb.engine.replicated.pool_batch import PoolBatch
from qosweb.engine.replicated.upstreams import UpstreamReport
from qosweb.engine.sim.policies import CHANNEL_BPS, policy_of
from tests.engine.local.test_pipe_queue import COMPILED, A, B, Bench, Ear

if TYPE_CHECKING:
    from qosweb.engine.local.slot_queue import SlotQueue

SLOTS = 6
SERVERS = (("app", True),)
TABLE = [UpstreamReport("app", "http://app", True, 1, SLOTS, (), ())]
MANY = policy_of("".join(f"</{name}>.server_resource > 5%\n" for name in "abcdefghi"))


class SlotBench(Bench):
    """Nodes a and b in front of a shared server."""

    def __init__(self) -> None:
        super().__init__()
        self.engine.report_upstreams(TABLE)
        self.join(A, B)
        self.engine.change_policy(COMPILED[0])
        self.turn()
        self.land()
        self.of_b(report=NodeReport(CHANNEL_BPS, 0, 0, "http://b"), upstreams=TABLE)

    @property
    def queue(self) -> SlotQueue:
        return self.engine.slot_queue(SERVERS)

    def start(self, count: int) -> list[Request]:
        found = [self.queue.start_at_once(0) for _ in range(count)]
        return [one for one in found if one is not None]

    def uses(self) -> int:
        return len(self.engine.machine.servers.servers["app"].uses)


def test_a_batch_that_arrives_after_the_primary_view_was_left_is_not_counted_twice() -> None:
    bench = SlotBench()
    first = bench.start(2)
    bench.later(QUIET_MS)
    late = bench.flights[:]
    assert late
    bench.flights.clear()
    bench.engine.leave_primary_view()
    bench.turn()
    assert bench.queue.in_service() == {"app": len(first)}
    for body, batch in late:
        bench.apply(A, body)
        bench.engine.batch_ended(batch, delivered=True)
    assert bench.queue.in_service() == {"app": len(first)}
    bench.join(A, B)
    bench.land()
    assert bench.queue.in_service() == {"app": len(first)}
    assert bench.uses() == len(first)


def test_a_node_counts_what_runs_before_its_restatement_is_applied() -> None:
    bench = SlotBench()
    bench.start(3)
    bench.later(QUIET_MS)
    bench.land()
    bench.start(1)
    bench.later(QUIET_MS)
    bench.land()
    running = bench.uses()
    assert running > SLOTS // 2
    bench.engine.leave_primary_view()  # its part is three slots, and it uses more
    assert bench.start(1) == []
    bench.turn()
    bench.engine.view_changed(100, make_view(100, {B: 100}))
    bench.engine.view_changed(101, make_view(101, {A: 101, B: 101}))
    bench.engine.enter_primary_view()  # the other replicas have forgotten them
    assert bench.queue.in_service() == {"app": running}
    assert len(bench.start(SLOTS)) <= 1


def test_a_node_that_hears_late_that_it_was_left_out_counts_what_runs() -> None:
    bench = SlotBench()
    first = bench.start(2)
    bench.later(QUIET_MS)
    bench.land()
    bench.queue.finish(first[0], 1000)
    bench.engine.view_changed(100, make_view(100, {B: 100}))
    assert bench.queue.in_service() == {"app": 1}


def test_a_grant_for_a_cancelled_request_is_not_in_service() -> None:
    bench = SlotBench()
    bench.of_b(pools=[PoolBatch(("app",), started=[(one, 0, 1000, "app") for one in range(SLOTS)])])
    request = bench.queue.submit(0, 1000, bench.now_ms, lambda _: None)
    assert not isinstance(request, Deny)
    bench.turn()
    bench.queue.cancel(request)
    body, batch = bench.flights.pop(0)
    bench.of_b(pools=[PoolBatch(("app",), finished=[(0, 1000)])])
    bench.apply(A, body)
    bench.engine.batch_ended(batch, delivered=True)
    assert bench.uses() == SLOTS  # granted to a request that is over
    assert bench.queue.in_service() == {"app": 0}
    bench.turn()
    bench.land()
    assert request.phase is OVER
    assert bench.uses() == SLOTS - 1
    assert bench.queue.in_service() == {"app": 0}


def test_a_queue_whose_pool_is_not_known_follows_a_policy_that_comes_outside_the_primary_view() -> None:
    bench = SlotBench()
    queue = bench.engine.slot_queue((("unknown", True),))
    bench.engine.leave_primary_view()
    bench.turn()
    bench.of_b(policy=PolicyText(MANY.text, MANY.packed))
    for number in range(len(MANY.names)):
        assert queue.start_at_once(number) is None


def test_a_restarted_node_uses_its_part_of_a_shared_server() -> None:
    bench = SlotBench()
    bench.of_b(limits=[("app", SLOTS, SLOTS, 2)])
    state = bench.engine.snapshot()
    again = Engine(A, COMPILED[0], Ear(), is_member=True, life=1)
    again.report_upstreams(TABLE)
    again.report_capacity(NodeReport(CHANNEL_BPS, 0, 0, "http://a"))
    again.restore(state)
    again.flush(5)
    queue = again.slot_queue(SERVERS)
    started = [one for one in (queue.start_at_once(0) for _ in range(SLOTS)) if one is not None]
    assert [one.phase for one in started] == [RUNNING] * (SLOTS // 2)


def test_a_node_that_reads_its_log_after_its_start_uses_its_part() -> None:
    bench = SlotBench()
    state = bench.engine.snapshot()
    again = Engine(A, COMPILED[0], Ear(), is_member=True, life=1)
    again.report_upstreams(TABLE)
    again.flush(5)
    again.restore(state)
    again.apply(100, B, entries.encode(entries.NodeBatch(10, 1, limits=[])))
    assert again.machine.servers.servers["app"].bound == SLOTS // 2


def test_the_part_of_a_member_that_returns_is_reserved_until_it_has_told_what_it_has_in_service() -> None:
    bench = SlotBench()
    bench.join(A)
    server = bench.engine.replicated.servers.servers["app"]
    assert server.slots == SLOTS // 2
    bench.join(A, B)
    bench.land()
    assert server.slots == SLOTS // 2
    bench.of_b(restated=NodeRestatement(1, [], []), upstreams=TABLE, report=NodeReport(CHANNEL_BPS, 0, 0, "http://b"))
    assert server.slots == SLOTS


def test_a_decision_on_a_limit_is_not_lost_with_a_refused_batch() -> None:
    bench = SlotBench()
    first = bench.start(1)
    bench.later(QUIET_MS)
    bench.land()
    law = bench.engine.replicated.servers
    bench.engine._limits["app"] = ("app", 2, 2, 7)
    bench.turn()
    assert [batch.limits for _, batch in bench.flights] == [[("app", 2, 2, 7)]]
    bench.lose()
    bench.later(QUIET_MS)
    bench.land()
    assert law.servers["app"].limit == 2
    assert first[0].phase is RUNNING


def test_what_was_charged_for_a_request_stays_when_it_is_restated() -> None:
    bench = SlotBench()
    bench.start(1)
    bench.later(QUIET_MS)
    bench.land()
    pool = bench.queue.pool
    charged = pool.classes[0].spare_cost
    assert charged > 0
    bench.start(1)  # nobody else hears of it before the batch is refused
    bench.later(QUIET_MS)
    bench.lose()
    bench.later(QUIET_MS)
    bench.land()
    assert bench.uses() == 2
    assert pool.classes[0].spare_cost == 2 * charged


def test_requests_of_a_node_that_returns_are_charged() -> None:
    bench = SlotBench()
    bench.engine.leave_primary_view()
    bench.turn()
    assert len(bench.start(1)) == 1
    bench.turn()
    bench.engine.view_changed(100, make_view(100, {B: 100}))
    bench.engine.view_changed(101, make_view(101, {A: 101, B: 101}))
    bench.engine.enter_primary_view()
    bench.turn()
    bench.land()
    assert bench.uses() == 1
    assert bench.queue.pool.classes[0].spare_cost > 0


def test_a_newcomer_uses_one_slot_of_a_shared_server_until_it_is_in_the_primary_view() -> None:
    bench = Bench()
    own = UpstreamReport("own", "http://own", False, 1, SLOTS, (), ("/own",))
    bench.engine.report_upstreams([*TABLE, own])
    bench.turn()
    assert len([one for one in (bench.engine.slot_queue(SERVERS).start_at_once(0) for _ in range(4)) if one]) == 1
    assert bench.engine.machine.servers.servers["own@a"].bound == SLOTS


def test_nothing_starts_by_a_part_of_the_slots_that_is_no_longer_in_force() -> None:
    bench = SlotBench()
    bench.engine.leave_primary_view()
    bench.turn()
    assert len(bench.start(2)) == 2
    bench.turn()
    request = bench.queue.submit(0, 1000, bench.now_ms, lambda _: None)
    assert isinstance(request, Request)
    others = dict.fromkeys((A, B, ProcessId("c")), 100)
    bench.engine.view_changed(100, make_view(100, others))  # the part is two slots now, and was three
    assert request.phase is WAITING
    bench.queue.finish(bench.queue.requests[0], 1000)
    bench.turn()
    assert request.phase is RUNNING


def test_a_law_continues_at_the_level_that_another_one_had_found() -> None:
    bench, laws = SlotBench(), ServerLaws()
    bench.of_b(limits=[])
    machine = bench.engine.replicated
    server = machine.servers.servers["app"]
    server.slots_max, server.limit, server.level, server.epoch = 200, 12, 24, 9
    laws.absorb(machine, "app", ())
    assert laws.tick(machine, 1000, in_minority=False) == [("app", 24, 24, 10)]


def test_the_level_stays_while_slots_are_reserved() -> None:
    bench, laws = SlotBench(), ServerLaws()
    machine = bench.engine.replicated
    bench.join(A)
    server = machine.servers.servers["app"]
    assert server.reserved
    server.slots_max, server.limit, server.level, server.epoch = 200, 12, 24, 9
    laws.absorb(machine, "app", ())
    assert laws.tick(machine, 1000, in_minority=False) == [("app", 24, 24, 11)]
    assert laws.tick(machine, 2000, in_minority=False) == []
    server.limit = 24
    laws.absorb(machine, "app", ())
    assert laws.tick(machine, 3000, in_minority=False) == []


def test_a_node_alone_finds_the_limit_of_its_own_server_from_the_start_if_nobody_knows_it() -> None:
    bench = SlotBench()
    bench.of_b(limits=[])
    own = UpstreamReport("own", "http://own", False, 1, 200, (), ("/own",))
    bench.engine.report_upstreams([*TABLE, own])
    bench.later(QUIET_MS)
    bench.land()
    assert bench.engine.replicated.servers.servers["own@a"].bound == 200
    bench.engine.leave_primary_view()
    bench.turn()
    assert bench.engine.machine.servers.servers["own@a"].level == 0
