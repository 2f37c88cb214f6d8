"""Line law on a simulated line: a queue with a rate, a buffer, other traffic and losses."""

from __future__ import annotations

from math import inf

import pytest

from qosweb.engine.laws.line_rate import RATE_MIN, TARGET_S, TICK_S, Line, LineLaw, LineState

MBIT = 125_000.0


class SimulatedLine:
    """A line behind a sender that always has bytes, unless `demand_bps` is less than the rate."""

    def __init__(self, rate_bps: float, *, base_s: float = 0.01, buffer_s: float = 0.08) -> None:
        self.rate_bps = rate_bps
        self.base_s = base_s
        self.buffer_s = buffer_s
        self.demand_bps = inf
        self.outstanding = inf  # bytes of responses that clients wait for, in a closed loop
        self.foreign = 0.0  # bytes of others in the queue, which they refill
        self.law = LineLaw()
        self.now = 0.0
        self.queue = 0.0  # our bytes in the queue
        self.got = 0.0

    def tick(self) -> None:
        most = self.buffer_s * self.rate_bps
        wanted = min(self.law.rate, self.demand_bps, 4 * self.rate_bps)  # TCP fills the buffer
        sent = wanted * TICK_S
        before = self.queue
        sent = min(sent, self.outstanding - before + self.rate_bps * TICK_S)
        share = 1.0 if not self.foreign else before / (before + self.foreign + 1)
        out = min(before + sent, self.rate_bps * TICK_S * share)
        self.queue = min(before + sent - out, most)
        lost = max(0.0, before + sent - out - most)
        delay_s = (self.queue + self.foreign) / self.rate_bps
        self.got += out
        self.now += TICK_S
        self.law.tick(
            self.now,
            Line(
                delivered=int(out),
                queue_s=delay_s,
                base_s=self.base_s,
                in_flight=int(out / TICK_S * (self.base_s + delay_s)),
                busy=1.0 if delay_s > 0 else 0.2,
                sent=int(sent),
                repeated=int(min(lost, sent * 0.02)) if self.law.rate == inf else int(lost),
                is_starved=self.law.rate < self.demand_bps and self.queue < 0.9 * self.outstanding,
                is_blocked=self.law.rate == inf and self.queue >= most,
                in_kernel=int(self.queue),
            ),
        )

    def run(self, seconds: float) -> float:
        """The part of the line that was used."""
        before, began = self.got, self.now
        while self.now < began + seconds:
            self.tick()
        return (self.got - before) / (self.rate_bps * (self.now - began))


@pytest.mark.parametrize("mbit", [20, 60, 100, 1000])
@pytest.mark.parametrize("base_s", [0.001, 0.02, 0.08])
def test_a_short_line_is_held_with_a_small_queue(mbit: int, base_s: float) -> None:
    line = SimulatedLine(mbit * MBIT, base_s=base_s)
    line.run(3)
    assert line.law.state is not LineState.RELEASED
    assert line.run(10) > 0.9
    queues = []
    for _ in range(200):
        line.tick()
        queues.append(line.law.queue_s)
    assert sorted(queues)[100] < 3 * TARGET_S


def test_a_closed_loop_does_not_stay_in_the_queue_of_the_line() -> None:
    """All that clients wait for fits into the line. They ask again as fast as it delivers, and nothing waits here."""
    line = SimulatedLine(60 * MBIT, base_s=0.001)
    line.outstanding = 0.02 * line.rate_bps
    line.run(3)
    assert line.run(10) > 0.9
    assert line.law.state is not LineState.RELEASED
    assert line.law.queue_s < 0.5 * line.outstanding / line.rate_bps


def test_a_line_that_is_not_short_is_left_alone() -> None:
    line = SimulatedLine(60 * MBIT)
    line.demand_bps = 55 * MBIT
    line.run(20)
    assert line.law.state is LineState.RELEASED
    assert line.law.rate == inf


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_another_rate_is_found_within_four_seconds(factor: float) -> None:
    line = SimulatedLine(60 * MBIT)
    line.run(5)
    line.rate_bps *= factor
    line.run(4)
    assert line.law.state is not LineState.RELEASED
    assert line.run(3) > 0.9
    assert line.law.queue_s < 4 * TARGET_S


def test_a_queue_of_others_is_released_and_tried_again_later_and_later() -> None:
    line = SimulatedLine(60 * MBIT)
    line.run(3)
    line.foreign = 0.06 * line.rate_bps
    line.run(15)
    assert line.law.releases >= 1
    line.run(100)
    tries = line.law.releases
    line.run(100)
    assert line.law.releases - tries <= 5


def test_the_line_is_released_if_no_client_reads_while_others_wait() -> None:
    line = SimulatedLine(20 * MBIT)
    line.run(5)
    assert line.law.rate < inf
    now = line.now
    for _ in range(80):
        now += TICK_S
        line.law.tick(now, Line(delivered=0, is_starved=True, is_blocked=True))
    assert line.law.state is LineState.RELEASED


def test_the_line_is_released_when_nothing_has_waited_for_a_while() -> None:
    line = SimulatedLine(60 * MBIT)
    line.run(3)
    assert line.law.rate < inf
    line.demand_bps = 5 * MBIT
    line.run(15)
    assert line.law.state is LineState.RELEASED
    assert line.law.releases == 0


def test_a_pause_of_our_own_is_no_evidence() -> None:
    line = SimulatedLine(60 * MBIT)
    line.run(5)
    rate = line.law.rate
    line.now += 0.5
    line.law.tick(line.now, Line(delivered=0, queue_s=0.2, base_s=0.01, in_flight=100_000, is_starved=True))
    assert line.law.rate == pytest.approx(rate)


def test_a_policer_is_seen_by_its_losses() -> None:
    line = SimulatedLine(60 * MBIT, buffer_s=0.002)
    law = line.law
    for _ in range(400):
        line.now += TICK_S
        wanted = min(law.rate, 120 * MBIT) * TICK_S
        out = min(wanted, line.rate_bps * TICK_S)
        seen = Line(int(out), 0.001, 0.01, int(out), 1.0, int(wanted), int(wanted - out), is_starved=True)
        law.tick(line.now, seen)
    assert 0.85 * line.rate_bps < law.rate < 1.1 * line.rate_bps


def test_the_rate_never_falls_to_nothing() -> None:
    law = LineLaw()
    for number in range(2000):
        law.tick(number * TICK_S, Line(10, 0.5, 0.001, 100, 1.0, 10, 0, is_starved=True, is_blocked=True))
    assert law.rate >= RATE_MIN
