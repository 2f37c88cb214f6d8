"""Turn order: shares by arithmetic on fake time, with closed and open loops."""

from __future__ import annotations

from math import inf

import pytest

from qosweb.engine.local.turn_order import DENIED_MAX, QUANTUM, REQUESTS_MAX, WORK_MAX, TurnOrder

TURN_S = 0.000_2


class Client:
    """A closed loop of one class: each answered request is followed by another one, `delay` turns later."""

    def __init__(self, bench: Bench, name: str, size: int, delay: int) -> None:
        self.bench, self.name, self.size, self.delay = bench, name, size, delay
        self.denials: list[float] = []
        self.deadline = 0.0

    def ask(self, now: float) -> None:
        self.bench.order.add(self.bench.order.class_of(self.name), self, now)

    def take_turn(self, now: float) -> int:
        self.bench.got[self.name] += self.size
        self.bench.started.append((self.name, now))
        self.bench.later.append((self.bench.turn + self.delay, self))
        return self.size

    def miss_turn(self, now: float) -> None:
        self.denials.append(now)


class Bench:
    def __init__(self) -> None:
        self.order = TurnOrder()
        self.order.credit = 50e6
        self.got: dict[str, int] = {}
        self.later: list[tuple[int, Client]] = []
        self.started: list[tuple[str, float]] = []
        self.turn = 0
        self.now = 1.0

    def add(self, name: str, weight: float | None, clients: int, size: int = 4096, delay: int = 1) -> list[Client]:
        self.order.class_of(name).set_weight(weight)
        self.got[name] = 0
        made = [Client(self, name, size, delay) for _ in range(clients)]
        for one in made:
            one.ask(self.now)
        return made

    def run(self, turns: int) -> Bench:
        for _ in range(turns):
            self.turn += 1
            self.now += TURN_S
            due, self.later = [c for at, c in self.later if at <= self.turn], [
                (at, c) for at, c in self.later if at > self.turn
            ]  # fmt: skip
            for client in due:
                client.ask(self.now)
            self.order.run(self.now)
        return self

    def part(self, name: str) -> float:
        return self.got[name] / sum(self.got.values())


@pytest.mark.parametrize("delay", [1, 3])
@pytest.mark.parametrize("size", [4096, 65_536, 262_144])
@pytest.mark.parametrize("connections", [(8, 56), (16, 48), (48, 16)])
def test_closed_loop_gets_the_shares_against_the_connections(
    connections: tuple[int, int], size: int, delay: int
) -> None:
    bench = Bench()
    bench.add("a", 0.7, connections[0], size, delay)
    bench.add("b", 0.3, connections[1], size, delay)
    assert bench.run(4_000).part("a") == pytest.approx(0.7, abs=0.02)


def test_four_classes_of_different_sizes() -> None:
    bench = Bench()
    for name, weight, size in (("a", 0.1, 4096), ("b", 0.2, 262_144), ("c", 0.3, 65_536), ("d", 0.4, 8192)):
        bench.add(name, weight, 16, size)
    bench.run(20_000)
    for name, weight in (("a", 0.1), ("b", 0.2), ("c", 0.3), ("d", 0.4)):
        assert bench.part(name) == pytest.approx(weight, abs=0.02)


def test_a_turn_is_bounded() -> None:
    bench = Bench()
    bench.add("a", 1.0, 100)
    bench.order.run(bench.now)
    assert len(bench.started) == REQUESTS_MAX
    bench = Bench()
    bench.add("a", 1.0, 100, WORK_MAX // 2)
    bench.order.run(bench.now)
    assert len(bench.started) == 2


def test_small_requests_of_a_class_are_answered_together_until_it_is_a_quantum_ahead() -> None:
    bench = Bench()
    bench.add("a", 0.5, 20, QUANTUM // 4)
    bench.add("b", 0.5, 20, QUANTUM // 4)
    bench.order.run(bench.now)
    assert "".join(name for name, _ in bench.started) == "aaaaabbb"
    bench.order.run(bench.now)
    assert "".join(name for name, _ in bench.started[REQUESTS_MAX:]) == "bbbbbbba"


def test_always_available_comes_first_and_spare_last() -> None:
    bench = Bench()
    bench.add("spare", 0.0, 20)
    bench.add("share", 0.5, 5)
    bench.add("always", None, 2)
    bench.run(1)
    assert [name for name, _ in bench.started] == ["always"] * 2 + ["share"] * 5 + ["spare"]


def test_what_nobody_else_wants_goes_to_the_others() -> None:
    bench = Bench()
    bench.add("a", 0.7, 0)
    bench.add("b", 0.3, 10)
    assert bench.run(100).part("b") == 1.0


def test_memory_is_bounded() -> None:
    """A class that was away gets its share when it returns, and not all that it did not want meanwhile."""
    bench = Bench()
    bench.order.credit = 100_000.0
    bench.add("a", 0.5, 0)
    bench.add("b", 0.5, 20)
    bench.run(2_000)
    bench.got = {"a": 0, "b": 0}
    for client in [Client(bench, "a", 4096, 1) for _ in range(20)]:
        client.ask(bench.now)
    bench.run(500)
    ahead = bench.got["a"] - bench.got["b"]
    assert 0 < ahead <= 100_000 * 0.5 + 2 * WORK_MAX


def test_requests_are_held_until_their_lifetime_and_denied_then() -> None:
    bench = Bench()
    bench.order.class_of("b").lifetime_s = 0.5
    bench.add("a", 1.0, 50)
    waiting = bench.add("b", 0.0, 3 * DENIED_MAX)
    bench.run(2_400)  # 0.48 s
    assert not any(one.denials for one in waiting)
    bench.run(200)
    assert all(len(one.denials) == 1 and 1.5 <= one.denials[0] < 1.51 for one in waiting)


def test_denials_of_one_turn_are_bounded() -> None:
    bench = Bench()
    bench.order.class_of("a").lifetime_s = 0.1
    bench.add("a", 1.0, 10 * DENIED_MAX)
    bench.order.run(bench.now + 1)
    assert bench.order.denied == DENIED_MAX + REQUESTS_MAX
    assert not bench.started  # none is answered too late


def test_a_class_that_was_denied_to_the_last_waits_again() -> None:
    bench = Bench()
    chosen = bench.order.class_of("a")
    chosen.lifetime_s = 0.1
    first, second = bench.add("a", 1.0, 1)[0], Client(bench, "a", 1, 1)
    bench.order._deny_late(bench.now + 1)
    chosen.lifetime_s = inf
    second.ask(bench.now + 1)
    assert len(bench.order._heap) == 1
    bench.order.run(bench.now + 1)
    assert (len(first.denials), len(bench.started), bench.order.waiting) == (1, 1, 0)


def test_a_request_that_fails_does_not_stop_its_class() -> None:
    class Broken:
        deadline = 0.0

        def take_turn(self, now: float) -> int:  # noqa: ARG002
            raise ZeroDivisionError

        def miss_turn(self, now: float) -> None:
            raise NotImplementedError

    bench = Bench()
    bench.order.class_of("a").set_weight(1.0)
    bench.order.add(bench.order.class_of("a"), Broken(), bench.now)
    bench.add("a", 1.0, 1)
    with pytest.raises(ZeroDivisionError):
        bench.order.run(bench.now)
    bench.order.run(bench.now)
    assert [name for name, _ in bench.started] == ["a"]
