"""Order of sending at simulated times: minimum rates, shares of the rest, absences and always-available classes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.admission.class_accounts import ClassAccount
from qosweb.engine.local.send_order import LEAD_S, RING_SPARE, URGENT_BYTES, SendFlow, SendOrder

QUANTUM = 1000
RATE = 1_000_000.0
WEIGHTS: dict[str, int | None] = {"a": 700_000, "b": 300_000, "now": None, "last": 0}


class Endless(SendFlow):
    """A response without end."""

    __slots__ = ("name",)

    def __init__(self, name: str, rate_bps: int = 1) -> None:
        super().__init__(ClassAccount(name), rate_bps, 0.0)
        self.name = name

    def next_cost(self, most: int) -> int:
        return most


class Pipe:
    """A pipe of RATE bytes per second that sends one quantum after the other."""

    def __init__(self) -> None:
        self.order = SendOrder(lambda accounts: [WEIGHTS[one.name] for one in accounts])
        self.order.rate_bps = RATE
        self.now = 0.0
        self.got: Counter[SendFlow] = Counter()

    def add(self, *flows: Endless) -> None:
        for flow in flows:
            self.order.set_ready(flow, self.now, QUANTUM)

    def run(self, seconds: float) -> Counter[SendFlow]:
        before = self.got.copy()
        until = self.now + seconds
        while self.now < until:
            flow = self.order.next(self.now, QUANTUM)
            if flow is not None:
                self.order.sent(flow, QUANTUM, self.now, QUANTUM)
                self.got[flow] += QUANTUM
            self.now += QUANTUM / RATE
        return self.got - before


def part(got: Counter[SendFlow], *flows: SendFlow) -> float:
    return sum(got[flow] for flow in flows) / got.total()


def test_classes_divide_the_rate_by_their_weights_and_responses_evenly() -> None:
    pipe = Pipe()
    few, many = [Endless("a")], [Endless("b") for _ in range(9)]
    pipe.add(*few, *many)
    got = pipe.run(1)
    assert part(got, *few) == pytest.approx(0.7, abs=0.01)
    assert max(got[one] for one in many) - min(got[one] for one in many) <= QUANTUM


def test_a_response_alone_gets_everything() -> None:
    pipe = Pipe()
    lone = Endless("last")
    pipe.add(lone)
    assert pipe.run(1)[lone] == pytest.approx(RATE, rel=0.01)


def test_every_response_gets_its_channel_at_least() -> None:
    """The rest is divided among the responses of the class."""
    pipe = Pipe()
    wide, narrow = Endless("a", 600_000), [Endless("a", 50_000) for _ in range(4)]
    pipe.add(wide, *narrow)
    got = pipe.run(2)
    assert got[wide] / 2 == pytest.approx(600_000, rel=0.1)
    for one in narrow:
        assert got[one] / 2 == pytest.approx(100_000, rel=0.1)


def test_a_class_with_few_responses_gets_its_share_soon() -> None:
    """By their channels alone, class a would get a fifth."""
    pipe = Pipe()
    few, many = [Endless("a", 100_000) for _ in range(2)], [Endless("b", 100_000) for _ in range(8)]
    pipe.add(*few, *many)
    pipe.run(1)
    assert part(pipe.run(2), *few) == pytest.approx(0.7, abs=0.02)


def test_a_minimum_holds_again_soon_after_an_idle_pipe() -> None:
    pipe = Pipe()
    early = Endless("last", 400_000)
    pipe.add(early)
    pipe.run(10)  # at more than twice its minimum
    others = [Endless("a", 200_000) for _ in range(3)]
    pipe.add(*others)
    pipe.run(LEAD_S)
    got = pipe.run(1)
    assert got[early] == pytest.approx(400_000, rel=0.02)
    assert all(got[one] == pytest.approx(200_000, rel=0.02) for one in others)


def test_what_a_response_missed_is_not_due() -> None:
    pipe = Pipe()
    away, there = Endless("b", 500_000), Endless("a", 500_000)
    pipe.add(away, there)
    pipe.run(1)
    pipe.order.set_waiting(away)
    assert pipe.run(5)[there] == pytest.approx(5 * RATE, rel=0.01)  # at once, not after a while
    pipe.add(away)
    got = pipe.run(1)
    assert got[away] <= 500_000


def test_always_available_classes_come_first_and_those_without_weight_last() -> None:
    pipe = Pipe()
    now, last, some = Endless("now"), Endless("last"), Endless("b")
    pipe.add(last, some)
    assert part(pipe.run(0.1), some) > 0.97
    pipe.add(now)
    assert part(pipe.run(0.1), now) > 0.97


def test_a_large_response_of_an_always_available_class_leaves_others_their_minimum() -> None:
    pipe = Pipe()
    now, some = Endless("now", 300_000), Endless("b", 700_000)
    pipe.add(now, some)
    assert part(pipe.run(URGENT_BYTES / RATE), now) > 0.97
    assert pipe.run(2)[some] / 2 >= 0.98 * 700_000


def test_a_response_without_a_channel_has_no_minimum_until_it_gets_one() -> None:
    pipe = Pipe()
    lent, other = Endless("last", 500_000), Endless("a", 500_000)
    lent.has_channel = False
    pipe.add(lent, other)
    assert pipe.run(1)[lent] <= QUANTUM
    pipe.order.get_channel(lent, 300_000, pipe.now, QUANTUM)
    assert pipe.run(1)[lent] == pytest.approx(300_000, rel=0.02)


@given(st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=60))
def test_exactly_the_ready_responses_are_chosen(changes: list[tuple[int, bool]]) -> None:
    pipe = Pipe()
    flows = [Endless("ab"[at % 2], 100_000 * (at % 3 + 1)) for at in range(8)]
    ready: set[SendFlow] = set()
    for at, is_ready in changes:
        flow = flows[at]
        if is_ready:
            pipe.add(flow)
            ready.add(flow)
        else:
            pipe.order.set_waiting(flow)
            ready.discard(flow)
        assert pipe.order.ready == len(ready)
        got = pipe.run(0.02)
        assert set(got) <= ready
        assert bool(got) == bool(ready)
    if ready:
        assert set(pipe.run(2.0)) == ready


def test_responses_that_ended_leave_the_ring_while_others_of_their_class_send() -> None:
    """A class that sends by its minimum alone never turns its ring."""
    pipe = Pipe()
    pipe.add(Endless("a"))
    for _ in range(200):
        flow = Endless("a")
        pipe.add(flow)
        pipe.order.set_waiting(flow)
    assert len(pipe.order._classes["a"].ring) <= 2 + RING_SPARE
