"""Scheduler: fairness by arithmetic on fake time.

One node with one channel, which is released as soon as it is taken: each round starts exactly one request, so that the
bytes of each class can be counted exactly. Requests cost so much that nothing is granted ahead.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qosweb.engine.replicated.effects import Granted
from qosweb.engine.replicated.entries import UNUSED, PolicyText
from qosweb.engine.replicated.fair_queueing import CREDIT_MS, KEPT_MS
from qosweb.webqos.values import PPM
from tests.engine.driver import Cluster, policy_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

RATE = 256_000
LONG = 10**7
SHORT = RATE // 8  # as short as possible without grants ahead
CHANNEL = "set channel = 16KB in 64ms\n"


class Line(Cluster):
    """A node with one channel, and classes that wait for it."""

    check_every = 25

    def __init__(self, text: str) -> None:
        super().__init__(CHANNEL + text, "a", RATE)
        self.class_of: dict[int, str] = {}
        self.cost_of: dict[int, int] = {}
        self.next = 1
        self.served = 1  # the request that has the channel
        self.tell("a", 0, started=[(self.new("default", LONG), self.number("default"), LONG)])

    def new(self, name: str, cost: int) -> int:
        number, self.next = self.next, self.next + 1
        self.class_of[number], self.cost_of[number] = name, cost
        return number

    def wait(self, name: str, costs: Iterable[int]) -> None:
        class_number = self.number(name)
        self.tell("a", submitted=[(self.new(name, cost), class_number, cost) for cost in costs])

    def round(self) -> tuple[str, int]:
        """What runs ends; who is next?"""
        self.effects.clear()
        self.tell("a", finished=[(self.served, self.cost_of[self.served])])
        granted = [one.number for one in self.effects if isinstance(one, Granted)]
        assert len(granted) == 1
        self.served = granted[0]
        return self.class_of[granted[0]], self.cost_of[granted[0]]

    def rounds(self, count: int) -> Iterator[tuple[str, int]]:
        return (self.round() for _ in range(count))

    def virtual(self, name: str) -> int:
        return self.machine.classes[self.number(name)].virtual


TWO = "</a>.server_resource = 25%\n</b>.server_resource = 75%\n"
FIVE = "".join(f"</{name}>.server_resource = {share}%\n" for name, share in zip("abcde", (10, 15, 20, 25, 30)))  # noqa: B905


@given(
    st.lists(st.integers(1, 4), min_size=20, max_size=30),
    st.lists(st.integers(1, 4), min_size=20, max_size=30),
)
@settings(max_examples=20, deadline=None)
def test_two_backlogged_classes_differ_by_at_most_one_request(a: list[int], b: list[int]) -> None:
    """Over any period in which both wait: |got_a / share_a - got_b / share_b| <= c_a / share_a + c_b / share_b."""
    line = Line(TWO)
    line.wait("/a", [one * LONG for one in a])
    line.wait("/b", [one * LONG for one in b])
    got = Counter({"/a": 0, "/b": 0})
    left = {"/a": len(a), "/b": len(b)}
    points = []  # in thirds of a byte
    while all(left.values()):
        name, cost = line.round()
        got[name] += cost
        left[name] -= 1
        points.append(3 * 4 * got["/a"] - 4 * got["/b"])
    assert max(points) - min(points) <= 3 * 4 * max(a) * LONG + 4 * max(b) * LONG


def test_mixed_sizes_get_bytes_by_their_shares() -> None:
    line = Line("</s>.server_resource = 10%\n</m>.server_resource = 35%\n</l>.server_resource = 55%\n")
    for name, size in (("/s", 16), ("/m", 32), ("/l", 64)):
        line.wait(name, [size * LONG] * 400)
    got: Counter[str] = Counter()
    for name, cost in line.rounds(400):
        got[name] += cost
    total = sum(got.values())
    assert {name: round(100 * cost / total, 1) for name, cost in got.items()} == pytest.approx(
        {"/s": 10, "/m": 35, "/l": 55}, abs=0.5
    )


def test_five_classes_of_one_size() -> None:
    line = Line(FIVE)
    for name in "abcde":
        line.wait(f"/{name}", [LONG] * 400)
    got = Counter(name for name, _ in line.rounds(400))
    assert {name: abs(got[f"/{name}"] - share * 4) <= 1 for name, share in zip("abcde", (10, 15, 20, 25, 30))} == (  # noqa: B905
        dict.fromkeys("abcde", True)
    )


def test_idle_class_gets_no_credit() -> None:
    line = Line(TWO)
    line.wait("/a", [LONG] * 100)
    for _ in line.rounds(50):
        pass
    line.wait("/b", [LONG] * 100)
    first = [name for name, _ in line.rounds(8)]
    assert Counter(first)["/b"] == 6
    assert first[:4] != ["/b"] * 4


def test_class_served_alone_has_no_debt() -> None:
    """What /a took while nobody else wanted it does not hold it back when /b comes, nor when all waited for no one."""
    line = Line(TWO)
    line.wait("/a", [LONG] * 40)
    for _ in line.rounds(40):
        pass
    line.wait("/a", [LONG] * 40)
    line.wait("/b", [LONG] * 40)
    assert Counter(name for name, _ in line.rounds(40))["/a"] in (9, 10, 11)


def make_gap(line: Line, gap_ms: int, requests: int) -> None:
    """/b, which has three quarters, does not wait for so long, and /a is served instead."""
    line.wait("/a", [SHORT] * 100)
    line.wait("/b", [SHORT] * 12)
    for _ in line.rounds(17):
        pass
    assert line.machine.classes[line.number("/b")].waiting == 0
    line.tell("a", gap_ms)
    assert {name for name, _ in line.rounds(requests)} == {"/a"}
    line.wait("/b", [SHORT] * 100)


@pytest.mark.parametrize("gap_ms", [100, 800])
def test_class_catches_up_after_a_short_gap(gap_ms: int) -> None:
    line = Line(TWO)
    make_gap(line, gap_ms, 6)
    got = Counter(name for name, _ in line.rounds(34))
    assert 6 + got["/a"] == pytest.approx((6 + 34) * 0.25, abs=1)  # as if there had been no gap


def test_nothing_is_granted_ahead_when_the_last_request_of_a_class_that_is_behind_starts() -> None:
    """Requests are so short that more than four are granted at once, but /b may return before the others start."""
    cluster = Cluster(CHANNEL + TWO, "a", RATE)
    a, b, brief = cluster.number("/a"), cluster.number("/b"), RATE // 80
    cluster.tell("a", 0, started=[(1, a, LONG)], denied=[(b, 1, 10**6)])
    of_a, of_b = range(2, 22), range(22, 25)
    cluster.tell("a", 200, submitted=[(number, a if number in of_a else b, brief) for number in (*of_a, *of_b)])
    cluster.effects.clear()
    cluster.tell("a", finished=[(1, LONG)])
    assert [one.number for one in cluster.effects if isinstance(one, Granted)] == [of_a[0], *of_b]


def test_class_that_starts_requests_in_a_full_pipe_is_not_away() -> None:
    """Its requests exceed the pipe, because it is behind: they do not wait, but the class wants more than it gets."""
    line = Line(TWO)
    line.wait("/a", [SHORT] * 40)
    line.wait("/b", [SHORT] * 3)
    for _ in line.rounds(8):
        pass
    exceeds = line.new("/b", 1000)
    line.tell("a", KEPT_MS - 100, started=[(exceeds, line.number("/b"), 1000)])
    line.tell("a", finished=[(exceeds, 1000)])
    before = line.virtual("/b")
    assert {name for name, _ in line.rounds(4)} == {"/a"}
    line.tell("a", KEPT_MS + 100)
    line.wait("/b", [SHORT])
    assert line.virtual("/b") == before


def test_class_above_its_bound_is_charged_by_the_bound_while_the_other_class_pauses() -> None:
    cluster = Cluster(CHANNEL + "</a>.server_resource < 10%\n</b>.server_resource > 50%\n", "a", RATE)
    a, b, scheduler = cluster.number("/a"), cluster.number("/b"), cluster.machine.scheduler
    cluster.tell("a", 0, submitted=[(number, a, SHORT) for number in range(1, 21)])
    cluster.tell("a", 20, submitted=[(number, b, SHORT) for number in range(21, 31)])
    cluster.tell("a", 40, cancelled=list(range(21, 31)))
    for at_ms in range(100, KEPT_MS, 100):
        cluster.tell("a", at_ms)
        assert scheduler.weights[a] == PPM // 10
    cluster.tell("a", KEPT_MS + 100)  # now the other class is away
    assert scheduler.weights[a] > PPM // 2


def test_always_available_class_gives_no_credit_to_a_class_that_joins() -> None:
    line = Line("</now>.available = always\n" + TWO)
    line.wait("/now", [SHORT])
    line.wait("/a", [SHORT] * 40)
    for _ in line.rounds(20):
        pass
    line.wait("/b", [SHORT] * 40)
    assert Counter(name for name, _ in line.rounds(16))["/a"] in (3, 4)


def test_class_that_was_away_for_longer_does_not_catch_up() -> None:
    line = Line(TWO)
    make_gap(line, KEPT_MS, 6)
    assert Counter(name for name, _ in line.rounds(40))["/a"] == pytest.approx(10, abs=1)


def test_credit_of_a_class_is_bounded() -> None:
    line = Line(TWO)
    make_gap(line, 100, 20)
    credit = 3 * CREDIT_MS * RATE // (4 * 1000 * SHORT)  # three quarters of what the pipe does in CREDIT_MS
    assert credit < 3 * 20
    first = [name for name, _ in line.rounds(credit + 40)]
    assert set(first[: credit - 2]) == {"/b"}
    assert Counter(first)["/a"] == pytest.approx(10, abs=2)


def test_returning_class_does_not_wait_until_others_have_caught_up() -> None:
    line = Line("</a>.server_resource = 20%\n</b>.server_resource = 60%\n</c>.server_resource = 20%\n")
    make_gap(line, 100, 6)
    assert [name for name, _ in line.rounds(4)] == ["/b"] * 4
    line.wait("/c", [SHORT] * 3)
    assert line.round()[0] == "/c"
    assert "/a" not in [name for name, _ in line.rounds(4)]


def test_class_that_demands_little_has_the_weight_of_its_guarantee() -> None:
    line = Line("</a>.server_resource < 10%\n</b>.server_resource > 50%\n</c>.server_resource > 20%\n")
    line.wait("/a", [SHORT] * 10)
    line.wait("/b", [SHORT] * 10)
    line.wait("/c", [1_000])
    scheduler = line.machine.scheduler
    a, b, c = (line.number(name) for name in ("/a", "/b", "/c"))
    assert scheduler.shares[c] < PPM * 5 // 100
    assert scheduler.weights[c] >= PPM * 20 // 100
    assert scheduler.weights[a] == scheduler.shares[a] <= PPM * 10 // 100
    assert scheduler.weights[b] == scheduler.shares[b] >= PPM * 85 // 100  # nothing is set aside for /c


def test_priority_wins_over_virtual_time() -> None:
    line = Line("</a> before </b>\n")
    line.wait("/b", [LONG] * 20)
    line.wait("/a", [LONG] * 10)
    assert [name for name, _ in line.rounds(15)] == ["/a"] * 10 + ["/b"] * 5


def test_a_floor_holds_against_a_priority() -> None:
    line = Line("</a> before </b>\n</b>.server_resource > 20%\n")
    line.wait("/b", [LONG] * 100)
    line.wait("/a", [LONG] * 100)
    got = Counter(name for name, _ in line.rounds(100))
    assert abs(got["/b"] - 20) <= 1


def test_classes_without_a_share_divide_the_rest_evenly() -> None:
    line = Line("</a> before </b>\n</a> before </c>\n")
    line.wait("/b", [LONG] * 30)
    line.wait("/c", [LONG] * 30)
    line.wait("/a", [LONG] * 10)
    assert {name for name, _ in line.rounds(10)} == {"/a"}
    got = Counter(name for name, _ in line.rounds(20))
    assert abs(got["/b"] - got["/c"]) <= 1


def test_shares_that_change_hold_from_then_on() -> None:
    line = Line(TWO)
    line.wait("/a", [LONG] * 300)
    line.wait("/b", [LONG] * 300)
    got = Counter(name for name, _ in line.rounds(100))
    assert abs(got["/a"] - 25) <= 1
    policy = policy_of(CHANNEL + "</a>.server_resource = 60%\n</b>.server_resource = 40%\n")
    line.tell("a", policy=PolicyText(policy.text, policy.packed))
    got = Counter(name for name, _ in line.rounds(100))
    assert abs(got["/a"] - 60) <= 1


def test_always_available_class_is_first_and_not_charged() -> None:
    line = Line("</now>.available = always\n" + TWO)
    line.wait("/a", [LONG] * 10)
    before = line.virtual("/now")
    line.wait("/now", [LONG] * 5)
    assert [name for name, _ in line.rounds(6)] == ["/now"] * 5 + ["/a"]
    assert line.virtual("/now") == before


def test_refund_uses_the_share_of_the_charge() -> None:
    line = Line(TWO)
    line.wait("/a", [LONG] * 50)
    line.wait("/b", [LONG] * 50)
    for _ in line.rounds(3):
        pass
    name = line.class_of[line.served]
    before = line.virtual(name)
    line.tell("a", cancelled=[line.served])
    share = 250_000 if name == "/a" else 750_000
    after_refund = before - LONG * PPM // share
    assert line.virtual(name) in (after_refund, after_refund + LONG * PPM // share)  # it may have been the next again


def test_charges_of_an_earlier_era_are_not_refunded() -> None:
    line = Line(TWO)
    line.wait("/a", [LONG])
    line.round()  # now /a runs, and nobody waits
    line.tell("a", KEPT_MS)
    line.wait("/b", [LONG])  # all is forgotten
    before = line.virtual("/a")
    line.tell("a", visited=[(line.pids["a"], line.served, UNUSED)])
    assert line.virtual("/a") == before


def test_hard_share_holds_without_contention() -> None:
    cluster = Cluster(CHANNEL + "</a>.server_resource < 10% hard\n", "a", 10 * RATE)
    a, page = cluster.number("/a"), 16_384
    cluster.tell("a", 0, submitted=[(number, a, page) for number in range(1, 400)])
    cluster.check_every = 100
    for at_ms in range(10, 10_001, 10):
        done = [one.number for one in cluster.effects if isinstance(one, Granted)]
        cluster.effects.clear()
        cluster.tell("a", at_ms, finished=[(number, page) for number in done])
    started = 399 - cluster.machine.classes[a].waiting
    assert abs(started * page - RATE * 10) <= 2 * page + RATE // 10


def test_class_without_tokens_does_not_block_others() -> None:
    line = Line("</few>.num_requests < 1\n</b>.server_resource = 50%\n")
    line.wait("/few", [LONG] * 3)
    assert line.round()[0] == "/few"
    line.wait("/b", [LONG] * 3)
    assert [name for name, _ in line.rounds(3)] == ["/b"] * 3
    assert line.machine.scheduler.wake_ms is None or line.machine.scheduler.wake_ms > 0


def test_bound_of_zero_blocks_without_wake_ups() -> None:
    cluster = Cluster(CHANNEL + "</no>.server_resource < 0% hard\n", "a", RATE)
    cluster.tell("a", 0, submitted=[(1, cluster.number("/no"), 1000)])
    assert not [one for one in cluster.effects if isinstance(one, Granted)]
    assert cluster.machine.scheduler.wake_ms is None


@pytest.mark.parametrize("first", ["/a", "/b"])
def test_longest_waiting_request_at_a_node_with_room_is_next(first: str) -> None:
    cluster = Cluster(CHANNEL + TWO, "abc", RATE)
    names = [first, "/b" if first == "/a" else "/a"]
    for node in "abc":
        cluster.tell(node, started=[(1, cluster.number("default"), LONG)])
    for number, node in ((10, "c"), (11, "b"), (12, "a")):
        cluster.tell(node, submitted=[(number, cluster.number(names[0]), LONG)])
    cluster.tell("b", finished=[(1, LONG)])
    assert cluster.running("b") == [("b", 11)]  # its own, though that of c has waited for longer
    cluster.tell("b", finished=[(11, LONG)])
    assert cluster.running("b") == [("c", 10)]  # none of its own: the oldest is sent here
