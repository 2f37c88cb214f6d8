"""Pipe queue: each request gets exactly one decision, and its channel is released exactly once.

A node with a real engine, and a second node that only provides its pipe. A stateful test lets requests arrive, wait, be
granted, redirected, expire, be cancelled and end in any order, alone and in a primary view, under changing policies.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster.names import ProcessId, make_view
from qosweb.engine.engine import QUIET_MS, Engine
from qosweb.engine.local import expected_redirects
from qosweb.engine.local import request_queue as module
from qosweb.engine.local.expected_redirects import VISIT_MS
from qosweb.engine.local.requests import Decision, Deny, GoTo, Phase, Request, Start
from qosweb.engine.replicated import entries
from qosweb.engine.replicated.entries import NodeBatch, NodeReport
from qosweb.engine.replicated.invariants import violated_invariants
from qosweb.engine.replicated.pipes import LOOKAHEAD_MS
from qosweb.engine.sim.policies import CHANNEL_BPS, POLICIES, policy_of

if TYPE_CHECKING:
    import pytest

    from cluster.names import View
    from qosweb.engine.local.pipe_queue import PipeQueue
    from qosweb.engine.replicated.compiled_policy import CompiledPolicy
    from qosweb.engine.replicated.effects import EntryRejected, Reported, UpstreamsReported

A, B = ProcessId("a"), ProcessId("b")
COMPILED = [policy_of(text) for text in POLICIES]
PAGE = 16_384


class Ear:
    """A node that hears."""

    def __init__(self) -> None:
        self.refusals: list[EntryRejected] = []

    def policy_changed(self, position: int, policy: CompiledPolicy) -> None: ...
    def viewed(self, position: int, view: View) -> None: ...
    def reported(self, effect: Reported) -> None: ...
    def upstreams_reported(self, effect: UpstreamsReported) -> None: ...

    def entry_rejected(self, effect: EntryRejected) -> None:
        self.refusals.append(effect)


class Fate:
    def __init__(self) -> None:
        self.request: Request | None = None
        self.decisions: list[Decision] = []

    def __call__(self, decision: Decision) -> None:
        self.decisions.append(decision)


class Bench:
    """Node a, its order, and b of which there is only the pipe."""

    def __init__(self, policy: CompiledPolicy = COMPILED[0], channels: int = 2) -> None:
        self.engine = Engine(A, policy, Ear(), is_member=True)
        self.engine.report_capacity(NodeReport(channels * CHANNEL_BPS, 0, 0, "http://a"))
        self.position = self.epoch = self.now_ms = 0
        self.flights: list[tuple[bytes, NodeBatch]] = []  # on their way

    @property
    def pipe_queue(self) -> PipeQueue:
        return self.engine.pipe_queue

    def apply(self, origin: ProcessId, body: bytes) -> None:
        self.position += 1
        self.engine.apply(self.position, origin, body)

    def of_b(self, **what: object) -> None:
        machine = self.engine.replicated
        self.apply(B, entries.encode(NodeBatch(machine.time_ms, machine.generation, **what)))  # type: ignore[arg-type]

    def join(self, *members: ProcessId) -> None:
        self.position += 1
        self.epoch += 1
        self.engine.view_changed(self.position, make_view(self.epoch, dict.fromkeys(members, self.epoch)))
        self.engine.enter_primary_view()
        self.turn()

    def turn(self) -> None:
        """As the node does at the end of a turn of its loop, until there is nothing left to tell."""
        self.engine.tick(self.now_ms)
        for _ in range(100):
            body = self.engine.flush(self.now_ms)
            if body is not None:
                assert self.engine.in_flight is not None
                self.flights.append((body, self.engine.in_flight))
            elif not self.engine.should_send:
                return
        raise AssertionError("it talks without end")

    def land(self) -> None:
        """Everything on its way arrives."""
        while self.flights:
            body, batch = self.flights.pop(0)
            self.apply(A, body)
            self.engine.batch_ended(batch, delivered=True)
            self.turn()

    def lose(self) -> None:
        """Everything on its way is refused."""
        flights, self.flights = self.flights, []
        for _, batch in flights:
            self.engine.batch_ended(batch, delivered=False)

    def later(self, ms: int) -> None:
        self.now_ms += ms
        self.turn()

    def ask(self, class_number: int = 0, cost: int = PAGE) -> Fate:
        fate = Fate()
        fate.request = self.pipe_queue.start_at_once(class_number, cost)
        if fate.request is not None:
            fate(Start(fate.request.rate_bps))
            return fate
        answer = self.pipe_queue.submit(class_number, cost, self.now_ms, fate)
        if isinstance(answer, Deny):
            fate(answer)
        else:
            fate.request = answer
        return fate


class Life(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(COMPILED), channels=st.integers(1, 3))
    def begin(self, policy: CompiledPolicy, channels: int) -> None:
        self.bench = Bench(policy, channels)
        self.fates: list[Fate] = []
        self.visitors: list[Fate] = []
        self.others = 0
        self.bench.join(A, B)
        self.bench.engine.change_policy(policy)
        self.settle()
        self.bench.of_b(report=NodeReport(channels * CHANNEL_BPS, 0, 0, "http://b"))

    def settle(self) -> None:
        self.bench.turn()
        self.bench.land()

    def live(self) -> list[Fate]:
        return [one for one in (*self.fates, *self.visitors) if one.request and one.request.phase is not Phase.OVER]

    @rule(class_number=st.integers(0, 3), cost=st.sampled_from([100, PAGE, 4 * PAGE]), count=st.integers(1, 6))
    def arrive(self, class_number: int, cost: int, count: int) -> None:
        self.fates += [self.bench.ask(class_number, cost) for _ in range(count)]
        self.bench.turn()

    @rule(which=st.integers(0, 99), cost=st.sampled_from([0, PAGE]))
    def finish(self, which: int, cost: int) -> None:
        phases = Phase.RUNNING, Phase.LENT
        running = [one.request for one in self.live() if one.request and one.request.phase in phases]
        if running:
            request = running[which % len(running)]
            self.bench.pipe_queue.finish(request, cost)
            self.bench.pipe_queue.finish(request, cost)  # a second time is nothing
            self.bench.turn()

    @rule(which=st.integers(0, 99), cost=st.sampled_from([0, PAGE]))
    def lend(self, which: int, cost: int) -> None:
        running = [one.request for one in self.live() if one.request and one.request.phase is Phase.RUNNING]
        if running:
            request = running[which % len(running)]
            self.bench.pipe_queue.lend(request, cost)
            assert request.phase is Phase.LENT
            self.bench.turn()

    @rule(which=st.integers(0, 99), cost=st.sampled_from([1, PAGE]))
    def reclaim(self, which: int, cost: int) -> None:
        lent = [one.request for one in self.live() if one.request and one.request.phase is Phase.LENT]
        if lent:
            request = lent[which % len(lent)]
            has_channel = self.bench.pipe_queue.reclaim(request, cost)
            assert (request.phase is Phase.RUNNING) == has_channel
            self.bench.turn()

    @rule(which=st.integers(0, 99), cost=st.sampled_from([0, PAGE, 100 * PAGE]))
    def resize(self, which: int, cost: int) -> None:
        live = self.live()
        if live:
            request = live[which % len(live)].request
            assert request is not None
            self.bench.pipe_queue.resize(request, cost)
            self.bench.turn()

    @rule(which=st.integers(0, 99))
    def hang_up(self, which: int) -> None:
        live = self.live()
        if live:
            request = live[which % len(live)].request
            assert request is not None
            self.bench.pipe_queue.cancel(request)
            self.bench.pipe_queue.cancel(request)
            self.bench.turn()

    @rule(ms=st.sampled_from([1, 20, 100, 700, VISIT_MS]))
    def wait(self, ms: int) -> None:
        self.bench.later(ms)

    @rule()
    def land(self) -> None:
        self.bench.land()

    @rule()
    def lose(self) -> None:
        self.bench.lose()

    @rule(which=st.sampled_from(COMPILED))
    def change_policy(self, which: CompiledPolicy) -> None:
        if self.bench.engine.solo is None:
            self.bench.engine.change_policy(which)
            self.bench.turn()

    @rule(channels=st.integers(1, 4))
    def change_capacity(self, channels: int) -> None:
        self.bench.engine.report_capacity(NodeReport(channels * CHANNEL_BPS, 0, 0, "http://a"))
        self.bench.turn()

    @rule()
    def alone(self) -> None:
        self.bench.engine.leave_primary_view()
        self.bench.turn()

    @precondition(lambda self: self.bench.engine.solo is not None)
    @rule(came_back=st.booleans())
    def together(self, came_back: bool) -> None:
        self.bench.land()  # what was under way is in the order before what comes now
        if came_back:
            self.bench.position += 1
            self.bench.epoch += 1
            self.bench.engine.view_changed(self.bench.position, make_view(self.bench.epoch, {B: self.bench.epoch}))
        self.bench.join(A, B)
        self.bench.of_b(report=NodeReport(2 * CHANNEL_BPS, 0, 0, "http://b"))

    @rule(count=st.integers(1, 4))
    def others_wait(self, count: int) -> None:
        """Requests of b, which may be sent here."""
        first = self.others + 1
        self.others += count
        self.bench.of_b(submitted=[(number, 0, PAGE) for number in range(first, self.others + 1)])
        self.bench.turn()

    @rule()
    def others_end(self) -> None:
        pipe = self.bench.engine.replicated.pipes.get(B)
        if pipe is not None:
            own = [(number, PAGE) for owner, number in pipe.channels if owner == B]
            visits = [(owner, number, PAGE) for owner, number in pipe.channels if owner != B]
            self.bench.of_b(finished=own, visited=visits)
            self.bench.turn()

    @precondition(lambda self: self.bench.pipe_queue.expected)
    @rule(which=st.integers(0, 99))
    def visit(self, which: int) -> None:
        expected = self.bench.pipe_queue.expected
        fate = Fate()
        fate.request = self.bench.pipe_queue.visit(*expected[which % len(expected)], 0, PAGE, fate)
        self.visitors.append(fate)
        self.bench.turn()

    @invariant()
    def one_decision_each(self) -> None:
        if not hasattr(self, "bench"):
            return
        assert violated_invariants(self.bench.engine.machine) == []
        for one in (*self.fates, *self.visitors):
            assert len(one.decisions) <= 1
            if one.request is not None and one.request.phase is Phase.RUNNING:
                assert isinstance(one.decisions[0], Start)
            if one.decisions and isinstance(one.decisions[0], GoTo | Deny) and one.request is not None:
                assert one.request.phase is Phase.OVER
        running = [one.request for one in self.live() if one.request and one.request.phase is Phase.RUNNING]
        assert self.bench.pipe_queue.used_bps == sum(request.rate_bps for request in running)

    def teardown(self) -> None:
        """Everything ends: nothing is left in the node, and nothing of it in the machine."""
        if not hasattr(self, "bench"):
            return
        bench = self.bench
        if bench.engine.solo is not None:
            self.together(came_back=False)
        for _ in range(20 + self.others):  # each time at least one of b's requests ends
            for one in self.live():
                assert one.request is not None
                bench.pipe_queue.cancel(one.request)
            self.settle()
            bench.later(VISIT_MS + 1)
            self.settle()
            self.others_end()
        assert bench.pipe_queue.requests == []
        assert bench.pipe_queue.expected == []
        assert bench.pipe_queue.used_bps == 0
        assert not [key for pipe in bench.engine.replicated.pipes.values() for key in pipe.channels]
        assert not any(one.waiting for one in bench.engine.replicated.classes)
        self.totals_add_up()

    def totals_add_up(self) -> None:
        """Whatever was lost, restated or decided alone: each is counted once."""
        told: Counter[str] = Counter()
        for one in self.bench.engine.replicated.classes:
            for what in ("started", "denied", "cancelled", "redirected"):
                told[what] += getattr(one.totals, what)
        came = [one for one in self.fates if one.request is not None]
        decided = Counter(type(one.decisions[0]).__name__ for one in (*self.fates, *self.visitors) if one.decisions)
        early = sum(one.request is None for one in self.fates)
        assert told["started"] == decided["Start"]
        assert told["redirected"] == decided["GoTo"]
        assert told["denied"] == early
        started = sum(isinstance(one.decisions[0], Start) for one in came if one.decisions)
        assert told["cancelled"] == len(came) - started - decided["GoTo"]


Life.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
)
TestLife = Life.TestCase


def alone(policy: CompiledPolicy = COMPILED[0], channels: int = 1) -> Bench:
    bench = Bench(policy, channels)
    bench.turn()
    return bench


def test_requests_start_at_once_while_there_is_room() -> None:
    bench = alone()
    first, second = bench.ask(), bench.ask()
    assert isinstance(first.decisions[0], Start)
    assert second.decisions == []
    bench.turn()
    assert first.request is not None
    bench.pipe_queue.finish(first.request, PAGE)
    bench.turn()
    assert isinstance(second.decisions[0], Start)


def test_cost_known_before_the_batch_is_sent_directly() -> None:
    bench = alone()
    fate = bench.ask(0, 100)
    assert fate.request is not None
    bench.pipe_queue.resize(fate.request, 10 * PAGE)
    bench.later(QUIET_MS)
    machine = bench.engine.machine
    assert [(key[1], one.cost) for key, one in machine.pipes[A].channels.items()] == [(1, 10 * PAGE)]
    assert (machine.classes[0].totals.started, machine.classes[0].totals.started_cost) == (1, 10 * PAGE)


def test_long_request_is_not_granted_ahead() -> None:
    """Told to cost little, its channel would be free again soon."""
    granted = []
    for is_resized in (False, True):
        bench = alone(policy_of("set lifetime = 100s\n"))
        first = bench.ask(0, 100)
        assert first.request is not None
        bench.later(QUIET_MS)
        if is_resized:
            bench.pipe_queue.resize(first.request, 100 * PAGE)
        second = bench.ask(0, 100)
        bench.turn()
        assert second.request is not None
        granted.append(second.request.phase)
        bench.pipe_queue.finish(first.request, 90 * PAGE)
        for _ in range(3):
            bench.later(QUIET_MS)
        assert second.request.phase is Phase.RUNNING
        totals = bench.engine.machine.classes[0].totals
        assert (totals.started, totals.started_cost, totals.cancelled) == (2, 90 * PAGE + 100, 0)
        assert list(bench.engine.machine.pipes[A].channels) == [(A, second.request.number)]
    assert granted == [Phase.READY, Phase.WAITING]


def test_lifetime_is_enforced_by_the_local_clock() -> None:
    bench = Bench(COMPILED[0], 1)
    bench.join(A, B)
    bench.engine.change_policy(COMPILED[0])
    bench.turn()
    bench.land()
    bench.ask(0)
    waits = bench.ask(0)
    bench.later(599)  # the group has stopped: nothing arrives any more
    assert waits.decisions == []
    bench.later(1)
    assert [type(one) for one in waits.decisions] == [Deny]
    assert isinstance(waits.decisions[0], Deny)
    assert waits.decisions[0].is_expired


def test_grant_after_the_lifetime_does_not_start() -> None:
    """A node that stood still gets the grant before it looks at its clock."""
    bench = Bench(COMPILED[0], 1)
    bench.join(A, B)
    bench.engine.change_policy(COMPILED[0])
    bench.turn()
    bench.land()
    first, second = bench.ask(0), bench.ask(0)
    bench.turn()
    bench.land()
    assert first.request is not None
    bench.pipe_queue.finish(first.request, PAGE)
    bench.turn()
    bench.now_ms += 5_000
    bench.engine.now_ms = bench.now_ms
    bench.land()
    assert [isinstance(one, Deny) and one.is_expired for one in second.decisions] == [True]


def test_request_that_would_expire_is_denied_on_arrival() -> None:
    bench = alone()
    fates = []
    for _ in range(30):
        fates.append(bench.ask(0))
        bench.turn()
    denied = [one.decisions[0] for one in fates if one.decisions and isinstance(one.decisions[0], Deny)]
    assert denied
    assert {one.reason for one in denied} == {"cannot_be_reached"}
    assert all(1 <= one.retry_s <= 60 for one in denied)


def test_a_class_whose_bucket_was_emptied_is_not_denied_for_ever() -> None:
    bench = alone(policy_of("set lifetime = 300ms\n</few>.num_bytes < 10KB/s\n"), channels=50)
    bench.later(10)
    first = bench.ask(0, 100_000)  # ten seconds worth of tokens
    bench.turn()
    assert isinstance(first.decisions[0], Start)
    assert isinstance(bench.ask(0, 100).decisions[0], Deny)
    for _ in range(400):
        bench.later(50)
    again = bench.ask(0, 100)
    bench.later(1)
    assert isinstance(again.decisions[0], Start)


def test_requests_waiting_for_tokens_do_not_block_others() -> None:
    bench = alone(
        policy_of(
            "set lifetime = 10s\nset channel = 16KB in 160ms\n</few>.num_requests < 1\n</b>.server_resource > 1%\n"
        ),
        8,
    )
    for _ in range(3):
        bench.ask(0, 100)
    bench.turn()
    assert bench.engine.machine.classes[0].waiting == 2
    assert bench.pipe_queue.start_at_once(1, 100) is not None


def test_a_full_queue_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 2)
    bench = alone(policy_of("set lifetime = 100s\n"))
    fates = [bench.ask() for _ in range(5)]
    assert [one.decisions[0].reason for one in fates[3:] if isinstance(one.decisions[0], Deny)] == ["queue_full"] * 2


def test_always_available_requests_have_a_larger_queue_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 2)
    monkeypatch.setattr(module, "ALWAYS_MAX", 3)
    bench = alone(policy_of("set lifetime = 100s\n</now>.available = always\n"))
    now, default = (bench.engine.machine.names_now().index(name) for name in ("/now", "default"))
    for _ in range(9):
        bench.ask(default)
    fates = [bench.ask(now) for _ in range(5)]
    denied = [bool(one.decisions) for one in fates]
    assert denied == [False] * 3 + [True] * 2
    assert {one.reason for fate in fates for one in fate.decisions if isinstance(one, Deny)} == {"queue_full"}


def test_reservations_beyond_the_limit_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected_redirects, "VISITS_MAX", 1)
    bench = Bench(COMPILED[0], 3)
    bench.join(A, B)
    bench.engine.change_policy(COMPILED[0])
    bench.turn()
    bench.land()
    bench.of_b(submitted=[(number, 0, 10 * PAGE) for number in (1, 2, 3)])
    assert len(bench.pipe_queue.expected) == 1
    bench.later(QUIET_MS)
    bench.land()
    held = [key for key in bench.engine.replicated.pipes[A].channels if key[0] == B]
    assert held == [(B, 1)]


def test_old_deadlines_do_not_pile_up() -> None:
    bench = alone(policy_of("set lifetime = 1h\n"), channels=1)
    bench.ask()
    for _ in range(3 * module.DEADLINES_OLD_MAX):
        fate = bench.ask()
        assert fate.request is not None
        bench.pipe_queue.cancel(fate.request)
        if bench.position % 7 == 0:
            bench.ask()  # one that stays at the head would keep the others behind it
        bench.position += 1
        bench.pipe_queue.next_deadline_ms()
    assert len(bench.pipe_queue._deadlines) <= 2 * len(bench.pipe_queue.requests) + module.DEADLINES_OLD_MAX + 1


def test_draining_node_denies_requests_that_would_wait() -> None:
    bench = alone()
    bench.pipe_queue.is_draining = True
    fate = bench.ask()
    assert isinstance(fate.decisions[0], Deny)
    assert fate.decisions[0].reason == "draining"


def visited(lifetime: str = "9s") -> Bench:
    """A node of one channel that expects request 1 of B."""
    policy = policy_of(f"set lifetime = {lifetime}\nset channel = 16KB in 64ms\n")
    bench = Bench(policy, 1)
    bench.join(A, B)
    bench.engine.change_policy(policy)
    bench.turn()
    bench.land()
    bench.of_b(submitted=[(1, 0, PAGE)])
    assert bench.pipe_queue.expected == [(B, 1)]
    return bench


def test_late_redirected_client_loses_its_channel() -> None:
    bench = visited()
    bench.later(VISIT_MS)
    bench.land()
    assert (B, 1) not in bench.engine.replicated.pipes[A].channels
    assert bench.pipe_queue.visit(B, 1, 0, PAGE, Fate()) is None
    bench.later(expected_redirects.MISSED_MS)
    assert not bench.pipe_queue._redirects._missed


def test_redirected_client_waits_at_most_its_lifetime() -> None:
    bench = visited("500ms")
    fate, other = Fate(), Fate()
    assert bench.pipe_queue.visit(B, 7, 0, PAGE, other) is not None  # faster than the word of its coming
    fate.request = bench.pipe_queue.visit(B, 1, 0, PAGE, fate)
    assert isinstance(other.decisions[0], Start)
    assert not fate.decisions
    bench.later(499)
    assert not fate.decisions
    bench.later(1)
    assert isinstance(fate.decisions[0], Deny)
    assert fate.decisions[0].is_expired


def test_redirected_client_keeps_its_remaining_lifetime() -> None:
    bench = visited("500ms")
    fate = Fate()
    assert bench.pipe_queue.visit(B, 7, 0, PAGE, Fate()) is not None
    fate.request = bench.pipe_queue.visit(B, 1, 0, PAGE, fate, 120)
    bench.later(119)
    assert not fate.decisions
    bench.later(1)
    assert isinstance(fate.decisions[0], Deny)


def test_redirect_carries_the_remaining_lifetime() -> None:
    bench = visited("500ms")
    bench.pipe_queue.visit(B, 1, 0, PAGE, Fate())
    fates = [bench.ask(0) for _ in range(2)]
    bench.turn()
    bench.land()
    bench.later(100)
    bench.of_b(report=NodeReport(CHANNEL_BPS, 0, 0, "http://b"))
    assert [one.left_ms for fate in fates for one in fate.decisions if isinstance(one, GoTo)] == [400]


THROTTLED = policy_of(
    "set lifetime = 300ms\nset channel = 1MB in 1s\nclient in 127.0.0.2/32 => </a>.num_requests < 2\n"
    "client in 127.0.0.2/32 => </b>.num_requests < 1000\n</c>.num_requests < 2\n"
)


def throttled_class(bench: Bench, bound: str) -> int:
    """The class with a bound on the client (`2`, `1000`), or on the pages (`c`)."""
    scheduled = bench.engine.machine.scheduler.bound
    model = bench.engine.machine.policy.model
    for number, buckets in enumerate(scheduled.buckets_of):
        if any(f"</{bound}>" in model.constraints[scheduled.rules[at].constraint].text for at in buckets):
            return number
    raise AssertionError(bound)


def denials(fates: list[Fate]) -> Counter[str]:
    found: Counter[str] = Counter()
    for fate in fates:
        [decision] = fate.decisions
        if isinstance(decision, Deny):
            assert decision.is_of_client == (decision.reason == "client_bound")
            found[decision.reason] += 1
    return found


def test_a_throttled_client_is_denied_for_its_bound_whenever_that_happens() -> None:
    """Also by a node that stood still when the lifetime ended: the bucket has filled since."""
    for late_ms in (0, 1, 100, 400, 5_000):
        bench = alone(THROTTLED, 100)
        number = throttled_class(bench, "a")
        fates = [bench.ask(number) for _ in range(12)]
        bench.turn()
        bench.later(300 + late_ms)
        bench.later(300)
        found = denials(fates)
        assert set(found) == {"client_bound"}, (late_ms, found)
        assert found.total() >= 8


def test_a_throttled_client_is_denied_for_its_bound_also_if_capacity_is_lacking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for most in (module.WAITING_MAX, 3):
        monkeypatch.setattr(module, "WAITING_MAX", most)
        bench = alone(THROTTLED)
        number = throttled_class(bench, "a")
        bench.ask(0, 100 * PAGE)  # the pipe is full for a long time
        fates = []
        for _ in range(12):
            fates.append(bench.ask(number, 10 * PAGE))
            bench.turn()
        bench.later(300)
        assert denials(fates[1:]) == {"client_bound": 11}  # the first keeps the bound: for it capacity is lacking


def test_who_keeps_its_bound_is_denied_for_lack_of_capacity() -> None:
    bench = alone(THROTTLED)
    number = throttled_class(bench, "b")
    bench.ask(0, 100 * PAGE)
    bench.later(200)
    fates = [bench.ask(number)]
    bench.turn()
    bench.later(300)
    assert set(denials(fates)) <= {"lifetime", "cannot_be_reached"}
    assert denials(fates).total() == 1


def test_a_bound_on_pages_is_not_the_client_s() -> None:
    bench = alone(THROTTLED, 100)
    fates = [bench.ask(throttled_class(bench, "c")) for _ in range(12)]
    bench.turn()
    bench.later(300)
    assert "client_bound" not in denials(fates)
    assert denials(fates)["bound"] > 0


def started(fate: Fate) -> Request:
    assert fate.request is not None
    assert isinstance(fate.decisions[0], Start)
    return fate.request


def test_a_lent_channel_is_used_by_the_next_request_and_taken_back_when_it_is_free() -> None:
    bench = alone()
    first, second = bench.ask(cost=10 * PAGE), bench.ask()
    bench.turn()
    slow = started(first)
    bench.pipe_queue.lend(slow, PAGE)
    bench.turn()
    other = started(second)
    assert bench.pipe_queue.used_bps == other.rate_bps
    bench.pipe_queue.finish(other, PAGE)
    bench.turn()
    assert bench.pipe_queue.reclaim(slow, 9 * PAGE)
    bench.turn()
    assert bench.pipe_queue.used_bps == slow.rate_bps
    bench.pipe_queue.finish(slow, 10 * PAGE)
    bench.later(QUIET_MS)
    [totals] = [one.totals for one in bench.engine.machine.classes if one.totals.started]
    assert (totals.started, totals.started_cost) == (2, 11 * PAGE)


def test_what_is_sent_while_a_channel_is_lent_is_charged_to_the_class() -> None:
    bench = alone()
    slow = started(bench.ask(cost=10 * PAGE))
    bench.pipe_queue.lend(slow, PAGE)
    bench.later(QUIET_MS)
    bench.pipe_queue.finish(slow, 3 * PAGE)
    bench.later(QUIET_MS)
    [totals] = [one.totals for one in bench.engine.machine.classes if one.totals.started]
    assert (totals.started, totals.started_cost) == (1, 3 * PAGE)


def test_a_full_pipe_is_exceeded_only_by_a_class_that_is_not_ahead() -> None:
    bench = alone(channels=8)
    slow = started(bench.ask(0, 4 * PAGE))
    bench.pipe_queue.lend(slow, PAGE)
    fates = [bench.ask(number % 2, PAGE) for number in range(40)]
    bench.turn()
    assert sum(bool(one.decisions) for one in fates) >= 8
    scheduler = bench.engine.machine.scheduler
    mine = bench.engine.machine.classes[0]
    mine.virtual = scheduler.virtual + 1
    assert not bench.pipe_queue.reclaim(slow, 3 * PAGE)
    mine.virtual = scheduler.virtual
    assert bench.pipe_queue.reclaim(slow, 3 * PAGE)


def full_with_one_waiting() -> tuple[Bench, int]:
    """A pipe of one channel, which is taken. Of two classes with shares the first is behind, the second one waits."""
    bench = alone(policy_of("</a>.server_resource > 20%\n</b>.server_resource > 20%\n"))
    names = bench.engine.machine.names_now()
    mine, other = names.index("/a"), names.index("/b")
    started(bench.ask(mine))
    bench.ask(other)
    bench.turn()
    machine = bench.engine.machine
    machine.scheduler.set_shares((400_000, 400_000, 200_000))
    machine.scheduler.virtual = 10 * PAGE
    machine.classes[mine].virtual, machine.classes[other].virtual = 3 * PAGE, 4 * PAGE
    return bench, mine


def test_a_class_exceeds_a_full_pipe_only_in_its_turn() -> None:
    bench, mine = full_with_one_waiting()
    classes = bench.engine.machine.classes
    for virtual, may_start in ((5 * PAGE, False), (4 * PAGE, False), (3 * PAGE, True)):
        classes[mine].virtual = virtual
        assert (bench.pipe_queue.start_at_once(mine, PAGE, may_exceed=True) is not None) == may_start


def test_small_requests_exceed_a_full_pipe_beside_large_ones() -> None:
    bench, mine = full_with_one_waiting()
    queue = bench.pipe_queue
    small = queue.capacity_bps * LOOKAHEAD_MS // 1000 - 1
    assert queue.start_at_once(mine, PAGE, may_exceed=True) is not None
    assert queue.start_at_once(mine, PAGE, may_exceed=True) is None
    assert queue.start_at_once(mine, small, may_exceed=True) is not None
    assert queue.start_at_once(mine, small, may_exceed=True) is None


def test_always_available_requests_exceed_a_full_pipe_within_a_bound() -> None:
    policy = policy_of("</now>.available = always\n")
    bench = alone(policy, channels=2)
    names = bench.engine.machine.names_now()
    now = names.index("/now")
    other = next(number for number in range(len(names)) if number != now)
    for _ in range(4):
        bench.ask(other)
    bench.turn()
    queue = bench.pipe_queue
    extra = [queue.start_at_once(now, PAGE, may_exceed=True) for _ in range(3)]
    assert [one is not None for one in extra] == [True, True, False]
    assert queue.start_at_once(other, PAGE, may_exceed=True) is None
    for one in extra[:2]:
        assert one is not None
        queue.finish(one, PAGE)
    assert queue.start_at_once(now, PAGE, may_exceed=True) is not None
