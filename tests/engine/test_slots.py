"""Pools of upstream servers at one node: shares of slot time, limits, lifetimes, always-available classes, bounds."""

from __future__ import annotations

from collections import Counter, deque
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TYPE_CHECKING

import pytest

from cluster.names import ProcessId
from qosweb.engine.engine import Engine
from qosweb.engine.local.requests import Decision, Deny, Request, Start
from qosweb.engine.local.slot_queue import Lane
from qosweb.engine.replicated.entries import NodeReport
from qosweb.engine.replicated.invariants import violated_invariants
from qosweb.engine.replicated.slot_scheduler import most_free
from qosweb.engine.replicated.upstreams import UpstreamReport, Vote
from qosweb.engine.sim.policies import policy_of

if TYPE_CHECKING:
    from collections.abc import Callable

Servers = tuple[tuple[str, bool], ...]
POOL: Servers = (("app", True),)
TWO: Servers = (("app", True), ("other", True))


def report(name: str, slots: int, vote: Vote = Vote.UNKNOWN) -> UpstreamReport:
    return UpstreamReport(name, f"http://{name}", True, 1, slots, (), (), vote)


class Listener:
    """Ignores the events of the engine."""

    def policy_changed(self, position: int, policy: object) -> None: ...
    def viewed(self, position: int, view: object) -> None: ...
    def reported(self, effect: object) -> None: ...
    def upstreams_reported(self, effect: object) -> None: ...
    def entry_rejected(self, effect: object) -> None: ...


class Gateway:
    """One node without a group in front of servers, in virtual time."""

    def __init__(self, policy: str, *servers: UpstreamReport, seed: int = 1) -> None:
        self.engine = Engine(ProcessId("n1"), policy_of(policy), Listener(), is_member=False)
        self.engine.report_capacity(NodeReport(1 << 30, 0, 0, ""))
        self.engine.report_upstreams(list(servers))
        self.chance = Random(seed)
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order = count()
        self.in_service: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.slot_time: Counter[str] = Counter()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.waits: dict[str, list[float]] = {}
        self.amounts: dict[str, int] = {}  # by class, what a request costs if that is not time
        self.places = 1_000_000  # requests that a server really works on at a time; the others queue inside it
        self.inside: deque[tuple[float, Callable[[], None]]] = deque()
        self.busy = 0
        self.busy_s = self.inside_s = 0.0
        self.turn()

    def at(self, when: float, what: Callable[[], None]) -> None:
        heappush(self.events, (when, next(self.order), what))

    def turn(self) -> None:
        self.engine.tick(int(self.now * 1000))
        self.engine.flush(int(self.now * 1000))
        assert not violated_invariants(self.engine.machine)

    def run(self, until: float) -> None:
        while True:
            wake_ms = self.engine.next_call_ms()
            wake = until if wake_ms is None else max(wake_ms / 1000, self.now + 0.001)
            before = self.now
            what = None
            if self.events and self.events[0][0] <= min(wake, until):
                self.now, _, what = heappop(self.events)
            elif wake < until:
                self.now = wake
            else:
                self.now = until
            self.inside_s += len(self.inside) * (self.now - before)
            if what is not None:
                what()
            elif self.now >= until:
                return
            self.turn()

    def ask(self, name: str, seconds: float, pool: Servers = POOL) -> None:
        queue = self.engine.slot_queue(pool)
        number = self.engine.machine.policy.names.index(name)
        came = self.now
        queue.now_ms = int(self.now * 1000)
        started = queue.start_at_once(number)
        if started is not None:
            self.start(name, started, seconds, came, pool)
            return
        held: list[Request] = []

        def decided(decision: Decision) -> None:
            if isinstance(decision, Start):
                self.start(name, held[0], seconds, came, pool)
            else:
                self.outcomes[name, "expired"] += 1

        answer = queue.submit(number, queue.pool.mean_us(number), int(self.now * 1000), decided)
        if isinstance(answer, Deny):
            self.outcomes[name, answer.reason] += 1
        else:
            held.append(answer)

    def start(self, name: str, request: Request, seconds: float, came: float, pool: Servers) -> None:
        server = request.server
        self.outcomes[name, "served"] += 1
        self.waits.setdefault(name, []).append(self.now - came)
        self.in_service[server] += 1
        self.most[server] = max(self.most[server], self.in_service[server])

        began = self.now

        def end() -> None:
            self.in_service[server] -= 1
            self.busy -= 1
            self.busy_s += seconds
            self.slot_time[name] += round((self.now - began) * 1e6)
            amount = self.amounts.get(name)
            self.engine.slot_queue(pool).finish(request, max(1, round((self.now - began) * 1e6)), amount=amount)
            self.work()

        self.inside.append((seconds, end))
        self.work()

    def work(self) -> None:
        """Let the server begin with what is inside."""
        while self.inside and self.busy < self.places:
            seconds, end = self.inside.popleft()
            self.busy += 1
            self.at(self.now + seconds, end)

    def load(self, name: str, per_s: float, seconds: Callable[[], float], until: float, **options: object) -> None:
        def arrive() -> None:
            self.ask(name, seconds(), **options)  # type: ignore[arg-type]
            self.at(self.now + self.chance.expovariate(per_s), arrive) if self.now < until else None

        self.at(self.now, arrive)

    def share(self, name: str) -> float:
        return 100 * self.slot_time[name] / sum(self.slot_time.values())


SHARES = "set lifetime = 1s\n</a>.server_resource = 60%\n</b>.server_resource = 40%\n"


@pytest.mark.parametrize("slots", [4, 8, 32])
def test_shares_of_slot_time_hold_whatever_the_classes_ask_for(slots: int) -> None:
    """Class b asks for more, and its requests take five times as long."""
    gateway = Gateway(SHARES, report("app", slots))
    gateway.places = slots
    gateway.load("/a", 1.0 * slots / 0.02, lambda: 0.02, 6.0)
    gateway.load("/b", 1.5 * slots / 0.1, lambda: 0.1, 6.0)
    gateway.run(3.0)
    gateway.slot_time.clear()
    gateway.run(6.0)
    assert gateway.share("/a") == pytest.approx(60, abs=4)
    assert gateway.most["app"] <= slots
    assert sum(gateway.slot_time.values()) >= 0.85 * slots * 3e6
    assert max(max(waits) for waits in gateway.waits.values()) <= 1.01


@pytest.mark.parametrize(
    ("cost", "amounts", "of_a"),
    [
        ("time", {}, 6 / 100 / (6 / 100 + 4 / 10)),
        ("requests", {"/a": 1000, "/b": 1000}, 0.6),
        ("bytes", {"/a": 1000, "/b": 3000}, 6 / (6 + 4 / 3)),
        ('response_header("X-Cost")', {"/a": 4000, "/b": 500}, 6 / 4 / (6 / 4 + 4 / 0.5)),
    ],
)
def test_shares_are_measured_in_what_requests_cost(cost: str, amounts: dict[str, int], of_a: float) -> None:
    """Requests of /a take 100 ms, those of /b 10 ms. `of_a`: the part of the requests that are of /a."""
    gateway = Gateway(f"{SHARES}</a>.cost = {cost}\n</b>.cost = {cost}\n", report("app", 8))
    gateway.amounts = amounts
    gateway.load("/a", 200, lambda: 0.1, 6.0)
    gateway.load("/b", 700, lambda: 0.01, 6.0)
    gateway.run(2.0)
    gateway.outcomes.clear()
    gateway.run(6.0)
    served = {name: gateway.outcomes[name, "served"] for name in ("/a", "/b")}
    assert served["/a"] / sum(served.values()) == pytest.approx(of_a, rel=0.06)


def test_a_class_with_another_measure_shares_slot_time_with_the_rest() -> None:
    gateway = Gateway(SHARES + "</a>.cost = requests\n", report("app", 8))
    gateway.amounts = {"/a": 1000}
    gateway.load("/a", 200, lambda: 0.1, 6.0)
    gateway.load("/b", 700, lambda: 0.01, 6.0)
    gateway.run(2.0)
    gateway.slot_time.clear()
    gateway.run(6.0)
    assert gateway.share("/a") == pytest.approx(60, abs=4)


def test_a_request_without_an_amount_costs_the_mean_of_its_class() -> None:
    gateway = Gateway(SHARES + "</a>.cost = requests\n", report("app", 8))
    queue = gateway.engine.slot_queue(POOL)
    for amount in (3000, None):
        request = queue.start_at_once(0)
        assert request is not None
        gateway.turn()
        gateway.now += 0.1
        queue.finish(request, 100_000, amount=amount)
        gateway.turn()
    assert queue.pool.scales["requests"].amount == 6000


def test_a_change_of_policy_forgets_what_was_measured_by_the_earlier_one() -> None:
    gateway = Gateway(SHARES + "</a>.cost = requests\n", report("app", 8))
    queue = gateway.engine.slot_queue(POOL)
    request = queue.start_at_once(0)
    assert request is not None
    gateway.turn()
    queue.finish(request, 100_000, amount=1000)
    gateway.engine.change_policy(policy_of(SHARES + "</a>.cost = bytes\n"))
    gateway.now += 1
    gateway.turn()
    assert queue.pool.policy.text.endswith("bytes\n")
    assert queue.pool.scales == {}


def test_the_load_is_that_of_the_busiest_resource() -> None:
    gateway = Gateway(SHARES + "load > 80% => </a>.server_resource < 20%\n", report("app", 4), report("other", 4))
    gateway.load("/a", 60, lambda: 0.1, 6.0, pool=TWO)
    gateway.run(6.0)
    machine = gateway.engine.machine
    gateway.engine.report_capacity(NodeReport(1 << 30, 100_000, 0, ""))
    gateway.run(6.1)
    assert machine.environment.load_ppm == pytest.approx(750_000, rel=0.2)
    gateway.load("/b", 160, lambda: 0.1, 12.0, pool=TWO)
    gateway.run(12.0)
    gateway.engine.report_capacity(NodeReport(1 << 30, 110_000, 0, ""))
    gateway.run(12.1)
    assert machine.environment.load_ppm > 900_000
    gateway.run(30.0)
    gateway.engine.report_capacity(NodeReport(1 << 30, 100_000, 0, ""))
    gateway.run(30.1)
    assert machine.environment.load_ppm == 100_000


def test_without_contention_requests_start_at_once() -> None:
    gateway = Gateway(SHARES, report("app", 8))
    gateway.load("/b", 50, lambda: 0.02, 3.0)
    gateway.run(4.0)
    assert {outcome for _, outcome in gateway.outcomes} == {"served"}
    assert sum(wait == 0 for wait in gateway.waits["/b"]) >= 0.95 * len(gateway.waits["/b"])


def test_requests_go_to_the_server_with_most_free_slots() -> None:
    gateway = Gateway(SHARES, report("app", 2), report("other", 6))
    gateway.load("/a", 800, lambda: 0.02, 2.0, pool=TWO)
    gateway.run(2.0)
    assert gateway.most == {"app": 2, "other": 6}


def test_servers_that_are_equally_free_take_turns() -> None:
    """Light traffic: never more than one request in service."""
    gateway = Gateway(SHARES, report("app", 4), report("other", 4))
    served = Counter[str]()
    for number in range(40):
        gateway.run(number / 10)
        before = Counter(gateway.in_service)
        gateway.ask("/a", 0.02, TWO)
        served += gateway.in_service - before
    assert served == {"app": 20, "other": 20}
    pool = gateway.engine.machine.servers.pools["app", "other"]
    assert {most_free(pool.scheduler.places, ["app", "other"], turn) for turn in (1, 2)} == {"app", "other"}


def test_clients_that_leave_do_not_put_a_server_on_trial() -> None:
    gateway = Gateway(SHARES, report("app", 8))
    gateway.load("/a", 200, lambda: 0.02, 1.0)
    gateway.run(1.5)
    queue = gateway.engine.slot_queue(POOL)
    for _ in range(30):
        started = queue.start_at_once(0)
        assert started is not None
        queue.finish(started, 20_000, withdrawn=True)
        gateway.run(gateway.now + 0.01)
    assert gateway.engine.machine.servers.servers["app"].bound > 1
    for _ in range(30):
        started = queue.start_at_once(0)
        if started is None:
            break
        queue.finish(started, 20_000, failed=True)
        gateway.run(gateway.now + 0.02)
    assert gateway.engine.machine.servers.servers["app"].bound == 1


def test_a_server_that_is_out_gets_nothing_unless_all_are_out() -> None:
    gateway = Gateway(SHARES, report("app", 2, Vote.OUT), report("other", 2))
    gateway.load("/a", 200, lambda: 0.02, 1.0, pool=TWO)
    gateway.run(1.0)
    assert gateway.most["app"] == 0
    assert gateway.most["other"] == 2
    gateway.engine.report_upstreams([report("app", 2, Vote.OUT), report("other", 2, Vote.OUT)])
    gateway.load("/a", 200, lambda: 0.02, 2.0, pool=TWO)
    gateway.run(2.0)
    assert gateway.most["app"] == 2


def test_the_fast_path_sees_at_once_that_a_server_is_out() -> None:
    gateway = Gateway(SHARES, report("app", 4), report("other", 4))
    queue = gateway.engine.slot_queue(TWO)
    assert queue.start_at(0, "app") is not None
    gateway.engine.report_upstreams([report("app", 4, Vote.OUT), report("other", 4)])
    gateway.turn()
    assert queue.start_at(0, "app") is None
    assert queue.start_at(0, "other") is not None


@pytest.mark.parametrize("seed", range(8))
def test_the_fast_path_counts_every_request_once(seed: int) -> None:
    """Requests start on the fast path and end in any order, between batches, changes of the policy and restatements."""
    gateway = Gateway(SHARES, report("app", 40), seed=seed)
    engine, chance = gateway.engine, gateway.chance
    queue = engine.slot_queue(POOL)
    held: list[Request | Lane] = []
    started = 0
    forms: set[type] = set()
    for _ in range(1500):
        gateway.now += 0.001
        what = chance.random()
        if what < 0.5:
            found = queue.start_at(chance.randrange(2), "app")
            if found is not None:
                held.append(found)
                forms.add(type(found))
                started += 1
        elif what < 0.85 and held:
            one = held.pop(chance.randrange(len(held)))
            used_us = chance.randrange(1, 50_000)
            if chance.random() < 0.1:
                queue.finish(queue.request_of(one), used_us)
            else:
                queue.finish_timed(one, used_us, used_us / 1e6)
        elif what < 0.95:
            gateway.turn()
        elif what < 0.97:
            engine.change_policy(policy_of(SHARES + f"</c>.num_requests < {chance.randrange(2, 9)}\n"))
            gateway.turn()
        elif what < 0.98:
            queue.policy_changed(list(range(len(engine.machine.policy.names))))
        else:
            queue.untell()
            assert queue._balance["app"] == len(held)
            engine.outbox.restates = True
            gateway.turn()
        in_service = engine.machine.servers.servers["app"].uses
        assert queue.in_service()["app"] == len(held)
        assert len(in_service) <= 40
    assert forms == {Lane, Request}
    for one in held:
        queue.finish_timed(one, 1, 1e-6)
    for _ in range(3):
        gateway.now += 0.1
        gateway.turn()
    assert not engine.machine.servers.servers["app"].uses
    assert not queue.requests
    assert not +queue._balance
    assert not queue._untold
    assert sum(one.totals.started for one in engine.machine.classes) == started


def test_a_change_of_the_policy_finds_requests_that_were_only_counted() -> None:
    gateway = Gateway("</b>.server_resource > 40%\n</c>.server_resource > 10%\n", report("app", 40))
    queue = gateway.engine.slot_queue(POOL)
    number = gateway.engine.machine.policy.names.index("/c")
    ended, running = queue.start_at(number, "app"), queue.start_at(number, "app")
    assert ended is not None
    assert running is not None
    queue.finish_timed(ended, 1000, 0.001)
    gateway.engine.machine.change_policy(1, policy_of("</c>.available = always\n"))
    gateway.now += 0.1
    gateway.turn()
    assert len(gateway.engine.machine.servers.servers["app"].uses) == 1
    queue.finish_timed(running, 1000, 0.001)
    gateway.now += 0.1
    gateway.turn()
    assert not gateway.engine.machine.servers.servers["app"].uses
    assert {one.name: one.totals.started for one in gateway.engine.machine.classes} == {"/c": 2, "default": 0}


def test_always_available_requests_exceed_a_full_server_but_no_more_than_its_limit() -> None:
    gateway = Gateway(SHARES + "</now>.available = always\n", report("app", 4))
    gateway.load("/b", 400, lambda: 0.1, 3.0)
    gateway.run(1.0)
    gateway.load("/now", 20, lambda: 0.02, 3.0)
    gateway.run(3.0)
    assert max(gateway.waits["/now"]) <= 0.012
    for _ in range(20):
        gateway.ask("/now", 0.1)
    gateway.run(3.05)
    assert 4 < gateway.most["app"] <= 8


def test_a_hard_share_bounds_slots_even_of_an_idle_server() -> None:
    gateway = Gateway("set lifetime = 1s\n</a>.server_resource < 25% hard\n", report("app", 8))
    gateway.load("/a", 400, lambda: 0.05, 2.0)
    gateway.run(2.0)
    assert gateway.most["app"] == 2


def test_a_bound_on_requests_holds() -> None:
    gateway = Gateway("set lifetime = 1s\n</a>.num_requests < 10\n", report("app", 8))
    gateway.load("/a", 100, lambda: 0.01, 5.0)
    gateway.run(5.0)
    assert gateway.outcomes["/a", "served"] == pytest.approx(50, abs=3)


@pytest.mark.parametrize("slots", [4, 16])
def test_a_class_with_a_bound_on_requests_is_served_beside_a_class_that_wants_everything(slots: int) -> None:
    """The bound is not a part of the slots: five requests a second are few bytes, but perhaps much of a server."""
    gateway = Gateway("set lifetime = 1s\n</bots>.num_requests < 5\n", report("app", slots))
    gateway.places = slots
    gateway.load("/bots", 22, lambda: 0.02, 12.0)
    gateway.load("default", 1.5 * slots / 0.02, lambda: 0.02, 12.0)
    gateway.run(2.0)
    gateway.outcomes.clear()
    gateway.run(12.0)
    assert gateway.outcomes["/bots", "served"] == pytest.approx(50, abs=6)


def test_what_a_client_leaves_behind_is_free() -> None:
    """A request that gave up while it waited, and one that was granted at that moment, hold nothing."""
    gateway = Gateway(SHARES, report("app", 1))
    gateway.ask("/a", 0.1)
    queue = gateway.engine.slot_queue(POOL)
    number = gateway.engine.machine.policy.names.index("/b")
    waiting = queue.submit(number, 1000, 0, lambda _: None)
    assert not isinstance(waiting, Deny)
    gateway.turn()
    queue.cancel(waiting)
    gateway.run(0.5)
    server = gateway.engine.machine.servers.servers["app"]
    assert not server.uses
    assert not queue.pool.waiting


def test_the_limit_of_a_server_is_found_and_follows_it() -> None:
    """Eight places of 20 ms, twice as much as it can do, nothing configured; then four places."""
    gateway = Gateway(SHARES, report("app", 200))
    gateway.places = 8
    gateway.load("/a", 400, lambda: 0.02, 12.0)
    gateway.load("/b", 400, lambda: 0.02, 12.0)

    def judge(until: float, places: int) -> None:
        gateway.slot_time.clear()
        gateway.busy_s = gateway.inside_s = 0.0
        since = gateway.now
        gateway.run(until)
        assert gateway.busy_s >= 0.95 * places * (until - since)
        assert gateway.inside_s <= 2 * (until - since)
        assert gateway.share("/a") == pytest.approx(60, abs=4)
        assert max(max(waits) for waits in gateway.waits.values()) <= 1.01

    gateway.run(2.0)
    judge(6.0, 8)
    gateway.places = 4
    gateway.run(8.0)
    judge(11.0, 4)
