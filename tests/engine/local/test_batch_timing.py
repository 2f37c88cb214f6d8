"""Batch timing: sent at once if any request's turn depends on it, otherwise fewer and larger batches."""

from __future__ import annotations

from heapq import heappop, heappush

from qosweb.engine.engine import QUIET_MS
from qosweb.engine.local.batch_timing import SUPPLIED_MS
from qosweb.engine.local.pipe_queue import READY_FEW
from qosweb.engine.local.requests import READY, RUNNING, GoTo, Request, Start
from qosweb.engine.replicated.entries import NodeReport
from qosweb.engine.replicated.pipes import LOOKAHEAD_MS
from qosweb.engine.sim.policies import CHANNEL_BPS, policy_of
from tests.engine.local.test_pipe_queue import PAGE, A, B, Bench, Fate

HOLD_MS = 160  # a page in its channel
ROUND_MS = 4  # from telling to hearing
POLICY = """\
set lifetime = 60s
set channel = 16KB in 160ms
</a>.server_resource = 20%
</b>.server_resource = 30%
</c>.server_resource = 50%
</now>.available = always
"""
OF_A, OF_B, OF_C, NOW = range(4)
CHANNELS = 40


class Supplied(Bench):
    """A node whose channels are all in use, with the next requests ready; some of /a and /b wait, none of /c."""

    def __init__(self, channels: int = CHANNELS, waiting: int = 30) -> None:
        policy = policy_of(POLICY)
        assert policy.names[:4] == ["/a", "/b", "/c", "/now"]
        super().__init__(policy, channels)
        self.join(A, B)
        self.engine.change_policy(policy)
        self.hear_all()
        ahead = channels * LOOKAHEAD_MS // HOLD_MS
        self.fates = [self.ask(number % 2) for number in range(channels + ahead + waiting)]
        self.hear_all()

    def hear_all(self) -> None:
        """Everything is told and heard, the last of it just now."""
        for _ in range(10):
            self.later(QUIET_MS)
            self.land()
        assert self.engine.outbox.is_empty
        self.engine.outbox.report = self.engine.report
        self.turn()
        self.land()
        assert not self.flights

    def of_phase(self, phase: object) -> list[Request]:
        return [one for one in self.pipe_queue.requests if one.phase is phase]

    def end_one(self) -> None:
        self.pipe_queue.finish(self.of_phase(RUNNING)[0], PAGE)

    def tells(self) -> bool:
        self.turn()
        return bool(self.flights)


def test_node_with_ready_requests_collects_events() -> None:
    bench = Supplied()
    bench.end_one()
    bench.ask(OF_A)
    bench.ask(OF_B)
    assert not bench.tells()
    bench.now_ms += SUPPLIED_MS - 1
    assert not bench.tells()
    assert bench.engine.next_call_ms() == bench.now_ms + 1
    bench.now_ms += 1
    assert bench.tells()
    batch = bench.flights[0][1]
    assert (len(batch.finished), len(batch.submitted)) == (1, 2)


def test_cancellations_wait_for_the_batch() -> None:
    bench = Supplied()
    waits = next(one.request for one in bench.fates if not one.decisions and one.request in bench.pipe_queue.requests)
    assert waits is not None
    bench.pipe_queue.cancel(waits)
    assert not bench.tells()
    bench.later(SUPPLIED_MS)
    assert bench.flights[0][1].cancelled == [waits.number]


def test_ready_requests_have_to_last_until_the_next_grants() -> None:
    bench = Supplied()
    ended = 0
    while not bench.tells():
        bench.end_one()
        ended += 1
    page_ms = 1000 * PAGE / bench.pipe_queue.capacity_bps
    assert ended > 1
    assert SUPPLIED_MS - page_ms <= len(bench.of_phase(READY)) * page_ms < SUPPLIED_MS


def test_few_ready_requests_do_not_delay_a_batch() -> None:
    """Channels that began together end together."""
    bench = Supplied(channels=12)
    bench.end_one()
    ready = len(bench.of_phase(READY))
    assert 0 < ready < READY_FEW
    assert 1000 * ready * PAGE > SUPPLIED_MS * bench.pipe_queue.capacity_bps
    assert bench.tells()


def test_first_request_of_a_class_is_sent_at_once() -> None:
    bench = Supplied()
    bench.ask(OF_A)
    assert not bench.tells()
    bench.ask(OF_C)
    assert bench.tells()


def test_first_request_after_an_empty_queue_is_sent_at_once() -> None:
    """It came while another of its class waited, which was granted by what was on its way."""
    bench = Supplied()
    bench.end_one()
    bench.ask(OF_C)
    bench.turn()
    bench.ask(OF_C)
    body, batch = bench.flights.pop()
    bench.apply(A, body)
    bench.engine.batch_ended(batch, delivered=True)
    assert bench.engine.replicated.classes[OF_C].waiting == 0
    assert bench.pipe_queue.has_untold(OF_C)
    assert bench.tells()


def test_always_available_requests_are_sent_at_once() -> None:
    bench = Supplied()
    bench.ask(NOW)
    assert bench.tells()
    bench.land()
    assert A in bench.engine.replicated.classes[NOW].queues
    bench.ask(NOW)  # though another of it is known to wait
    assert bench.tells()


def test_released_channel_is_sent_at_once_to_always_available_requests() -> None:
    bench = Supplied()
    bench.of_b(submitted=[(1, NOW, PAGE)])
    bench.end_one()
    assert bench.tells()
    bench.land()
    assert (B, 1) in bench.engine.replicated.pipes[A].channels


def test_redirectable_requests_are_sent_at_once() -> None:
    bench = Supplied(waiting=2)
    waits = bench.ask(OF_A)
    assert not bench.tells()
    bench.of_b(report=NodeReport(CHANNELS * CHANNEL_BPS, 0, 0, "http://b"))
    assert bench.tells()
    bench.land()
    assert isinstance(waits.decisions[0], GoTo)


def test_reports_policies_and_restatements_are_sent_at_once() -> None:
    bench = Supplied()
    bench.engine.report_capacity(NodeReport(CHANNELS * CHANNEL_BPS, 1, 0, "http://a"))
    assert bench.tells()
    bench.land()
    bench.engine.change_policy(policy_of(POLICY))
    assert bench.tells()
    bench.land()
    bench.pipe_queue.restate()
    assert bench.tells()


def test_node_alone_does_not_wait() -> None:
    bench = Supplied()
    bench.engine.leave_primary_view()
    bench.turn()
    for _ in range(3):
        bench.end_one()
        bench.ask(OF_A)
        bench.turn()
        assert bench.engine.outbox.is_empty


def test_refused_batch_is_resent_after_a_pause() -> None:
    bench = Supplied()
    bench.later(SUPPLIED_MS)
    bench.ask(OF_A)
    assert bench.tells()
    bench.lose()
    bench.turn()
    assert bench.engine.next_call_ms() == bench.now_ms + QUIET_MS


def test_under_contention_batches_are_few_and_the_pipe_stays_full() -> None:
    """For two seconds; whoever is over comes again."""
    bench = Supplied(channels=100, waiting=100)
    full = len(bench.of_phase(RUNNING))
    waiting = [one for one in bench.fates if not one.decisions]
    ends: list[tuple[int, int, Fate]] = []
    for number, fate in enumerate(one for one in bench.fates if one.decisions):
        heappush(ends, (bench.now_ms + 1 + number * HOLD_MS // full, number, fate))
    arrives_ms: int | None = None
    batches = 0
    began_ms = bench.now_ms
    while bench.now_ms < began_ms + 2_000:
        bench.now_ms += 1
        while ends[0][0] <= bench.now_ms:
            _, number, fate = heappop(ends)
            assert fate.request is not None
            bench.pipe_queue.finish(fate.request, PAGE)
            waiting.append(bench.ask(fate.request.class_number))
        if arrives_ms == bench.now_ms:
            arrives_ms = None
            body, batch = bench.flights.pop()
            bench.apply(A, body)
            bench.engine.batch_ended(batch, delivered=True)
        bench.turn()
        if bench.flights and arrives_ms is None:
            arrives_ms = bench.now_ms + ROUND_MS
            batches += 1
        for fate in [one for one in waiting if one.decisions]:
            assert isinstance(fate.decisions[0], Start)
            waiting.remove(fate)
            number += 1
            heappush(ends, (bench.now_ms + HOLD_MS, number, fate))
        assert len(ends) == full
    assert batches <= 2_000 // SUPPLIED_MS + 2
