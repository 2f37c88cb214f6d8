"""Gates: permits, denials and waits, their charges, and that every granted channel is released once."""

from __future__ import annotations

import asyncio

from qosweb.admission import Denial, Permit, Wait
from qosweb.admission.gate import HEAD_BYTES, MEAN_OF
from qosweb.engine.replicated.upstreams import UpstreamReport
from qosweb.webqos.policy.environment import REQUEST_BYTES
from tests.admission.requests import Door, Facts
from tests.cluster.runtime.loops import eventually, run

ONE_CHANNEL = "set channel = 64KB in 1s\n</a>.server_resource > 10%\n"
BPS = 64 << 10


class Tokens:
    """A throttle with a number of tokens."""

    is_limited = True

    def __init__(self, left: int) -> None:
        self.left = left

    def try_send(self, cost: int) -> bool:
        if cost > self.left:
            return False
        self.left -= cost
        return True


def charged(permit: object) -> int:
    """The cost that a request was charged with at entry."""
    assert isinstance(permit, Permit)
    assert permit.request is not None
    return permit.request.cost


def test_without_a_policy_every_request_may_start() -> None:
    async def story() -> None:
        door = Door(None, 1)
        permits = [door.enter() for _ in range(50)]
        assert door.control.in_service == 50
        for permit in permits:
            assert isinstance(permit, Permit)
            assert permit.rate_bps is None
            permit.close(10)
        assert door.control.in_service == 0
        assert permits[0].account.in_service == 0
        assert door.control.start(permits[0].account, 0)

    run(story)


def test_a_permit_is_closed_once() -> None:
    async def story() -> None:
        door = Door(ONE_CHANNEL, 4 * BPS)
        permit = door.enter(size=10)
        assert isinstance(permit, Permit)
        assert (door.control.in_service, permit.account.in_service) == (1, 1)
        for _ in range(2):
            permit.close(10)
        permit.resize(20)
        assert (door.control.in_service, permit.account.in_service) == (0, 0)

    run(story)


def test_a_known_size_is_charged_and_an_unknown_one_is_the_mean_of_its_class() -> None:
    async def story() -> None:
        door = Door(ONE_CHANNEL, 100 * BPS)
        known = door.enter(size=10)
        assert charged(known) == HEAD_BYTES + 10
        first = door.enter()
        assert charged(first) == HEAD_BYTES + REQUEST_BYTES  # nothing is known of the class
        assert isinstance(first, Permit)
        first.close(1000)
        second = door.enter()
        assert charged(second) == HEAD_BYTES + 1000
        assert isinstance(second, Permit)
        second.close(1000 + 8 * MEAN_OF)
        assert charged(door.enter()) == HEAD_BYTES + 1008
        assert isinstance(known, Permit)
        known.close(10)
        assert charged(door.enter()) == HEAD_BYTES + 1008  # known sizes do not change the mean of unknown ones
        assert charged(door.enter("/b")) == HEAD_BYTES + REQUEST_BYTES  # another class

    run(story)


def test_closing_a_permit_charges_the_bytes_sent() -> None:
    async def story() -> None:
        door = Door(ONE_CHANNEL, 100 * BPS)
        engine, driver = door.control.engine, door.control.driver
        assert engine is not None
        assert driver is not None
        permit = door.enter()
        assert isinstance(permit, Permit)
        permit.close(100_000)
        totals = engine.machine.classes[permit.account.number].totals
        await eventually(lambda: totals.started_cost == HEAD_BYTES + 100_000)

    run(story)


def test_a_request_that_waits_starts_when_another_ends() -> None:
    async def story() -> None:
        door = Door(ONE_CHANNEL, BPS)
        permit = door.enter()
        wait = door.enter()
        assert isinstance(permit, Permit)
        assert isinstance(wait, Wait)
        assert not door.control.start(permit.account, 0)  # no request overtakes the waiting one
        await asyncio.sleep(0)
        assert not door.decided
        permit.close(10)
        await eventually(lambda: bool(door.decided))
        (started,) = door.decided
        assert isinstance(started, Permit)
        assert started.account is wait.account
        assert door.control.in_service == 1

    run(story)


def test_a_hold_is_a_slot_until_it_is_released_or_becomes_a_permit() -> None:
    servers = (("app", True),)

    async def story() -> None:
        door = Door(ONE_CHANNEL, BPS)
        control = door.control
        assert control.engine is not None
        assert control.driver is not None
        control.engine.report_upstreams([UpstreamReport("app", "http://app", True, 1, 1, (), ())])
        control.driver.turn()
        account = control.classify(Facts(), door.clock.read())
        assert control.hold(account, servers, "other", door.clock.read()) is None
        hold = control.hold(account, servers, "app", door.clock.read())
        assert hold is not None
        assert (control.in_service, account.in_service) == (1, 1)
        assert control.hold(account, servers, "app", door.clock.read()) is None  # there is one slot
        decided: list[object] = []
        wait = control.enter(Facts(), account, lambda one, _at: decided.append(one), servers=servers)
        assert isinstance(wait, Wait)
        control.release(hold, 10, door.clock.read())
        await eventually(lambda: bool(decided))
        started = decided[0]
        assert isinstance(started, Permit)
        assert started.server == "app"
        assert control.hold(account, servers, "app", door.clock.read()) is None  # no request overtakes
        started.leave_server()  # the client may read on
        control.driver.turn()
        again = control.hold(account, servers, "app", door.clock.read())
        assert again is not None
        started.close(10)
        permit = control.permit_for(again)
        assert control.hold(account, servers, "app", door.clock.read()) is None
        permit.close(10)
        assert (control.in_service, account.in_service) == (0, 0)
        server = control.engine.machine.servers.servers["app"]
        await eventually(lambda: not server.uses)

    run(story)


def test_a_lifetime_ends_in_a_denial() -> None:
    async def story() -> None:
        door = Door("set lifetime = 30ms\n" + ONE_CHANNEL, BPS)
        permit = door.enter()
        assert isinstance(door.enter(), Wait)
        await eventually(lambda: bool(door.decided))
        (denial,) = door.decided
        assert isinstance(denial, Denial)
        assert (denial.status, denial.decision, denial.reason) == (503, "expired", "lifetime")
        assert denial.fields == (("Retry-After", "1"), ("QoS-Decision", "denied; reason=lifetime"))
        assert denial.text.startswith("The request was not served. ")
        assert denial.account.reasons == {"lifetime": 1}
        assert isinstance(permit, Permit)
        permit.close(0)

    run(story)


def test_a_request_that_cannot_start_in_time_is_denied_at_once() -> None:
    async def story() -> None:
        door = Door(ONE_CHANNEL, BPS)
        assert door.control.driver is not None
        door.control.driver.drain()
        denial = door.enter()
        assert isinstance(denial, Denial)
        assert (denial.decision, denial.reason) == ("denied", "draining")
        assert not door.decided

    run(story)


def test_a_wait_that_is_cancelled_gets_no_decision() -> None:
    async def story() -> None:
        door = Door(ONE_CHANNEL, BPS)
        assert door.control.engine is not None
        permit, wait, other = door.enter(), door.enter(), door.enter()
        assert isinstance(wait, Wait)
        assert isinstance(permit, Permit)
        for _ in range(2):
            wait.cancel()
        permit.close(0)
        await eventually(lambda: bool(door.decided))
        (started,) = door.decided
        assert isinstance(started, Permit)
        assert isinstance(other, Wait)
        assert [one.number for one in door.control.engine.pipe_queue.requests] == [3]  # the other one

    run(story)


def test_a_wait_that_is_cancelled_after_its_decision_gives_the_channel_back() -> None:
    async def story() -> None:
        door = Door(ONE_CHANNEL, BPS)
        assert door.control.engine is not None
        assert door.control.driver is not None
        pipe_queue = door.control.engine.pipe_queue
        permit, wait = door.enter(), door.enter()
        assert isinstance(permit, Permit)
        assert isinstance(wait, Wait)
        await eventually(lambda: len(pipe_queue.requests) == 2)
        permit.close(0)
        while not any(one.rate_bps for one in pipe_queue.requests):  # the engine has started the other one
            door.control.engine.flush(door.control.driver.now_ms())
        assert not door.decided  # its decision is not delivered yet
        wait.cancel()
        assert (pipe_queue.requests, pipe_queue.used_bps) == ([], 0)
        door.control.driver.turn()
        assert not door.decided
        assert isinstance(door.enter(), Permit)

    run(story)


def test_a_channel_depends_on_the_size_under_a_response_time_guarantee() -> None:
    async def story() -> None:
        spec = "set channel = 64KB in 1s\n</soon>.response_time < 100ms\n"
        door = Door(spec, 64 << 20, throttle=Tokens(0))
        soon, other = door.enter("/soon"), door.enter("/a")
        for permit in (soon, other):
            assert isinstance(permit, Permit)
            permit.resize(1 << 20)
        assert isinstance(soon, Permit)
        assert isinstance(other, Permit)
        assert soon.rate_bps is not None
        assert other.rate_bps is not None
        assert soon.rate_bps >= (HEAD_BYTES + (1 << 20)) * 10
        assert other.rate_bps < 2 * BPS
        assert door.control.engine is not None
        pipe_queue = door.control.engine.pipe_queue
        assert pipe_queue.used_bps == soon.rate_bps + other.rate_bps
        soon.close(1 << 20)
        other.close(1 << 20)
        assert pipe_queue.used_bps == 0

    run(story)


def test_requests_on_the_fast_path_are_counted_afterwards() -> None:
    async def story() -> None:
        door = Door(ONE_CHANNEL, 100 * BPS)
        permit = door.enter(size=0)
        assert isinstance(permit, Permit)
        permit.close(0)
        account = permit.account
        assert door.control.start(account, 0)
        account.plain_served += 3
        account.bytes_sent += 3000
        assert door.control.engine is not None
        totals = door.control.engine.machine.classes[account.number].totals
        await eventually(lambda: totals.started == 4)
        assert totals.started_cost == 4 * HEAD_BYTES + 3000

    run(story)


def test_the_fast_path_needs_tokens_of_the_throttle() -> None:
    async def story() -> None:
        tokens = Tokens(2 * (HEAD_BYTES + 1000))
        door = Door(ONE_CHANNEL, BPS, throttle=tokens)
        account = door.control.classify(Facts("/a"), door.clock.read())
        assert [door.control.start(account, 1000) for _ in range(3)] == [True, True, False]
        assert tokens.left == 0

    run(story)


def test_a_permit_lends_its_channel_and_takes_it_back() -> None:
    async def story() -> None:
        door = Door(ONE_CHANNEL, BPS, throttle=Tokens(0))
        slow = door.enter(size=10_000)
        assert isinstance(slow, Permit)
        waiting = door.enter(size=1000)
        assert isinstance(waiting, Wait)
        slow.lend(2000)
        await eventually(lambda: bool(door.decided))
        [other] = door.decided
        assert isinstance(other, Permit)
        other.close(1000)
        assert slow.reclaim(8000)
        slow.close(10_000)
        assert door.control.engine is not None
        assert door.control.engine.pipe_queue.used_bps == 0
        assert not slow.reclaim(1)  # it is over

    run(story)


def test_an_always_available_request_starts_in_a_full_pipe_that_is_paced() -> None:
    async def story() -> None:
        door = Door(ONE_CHANNEL + "</now>.available = always\n", BPS, throttle=Tokens(0))
        assert isinstance(door.enter(size=1000), Permit)
        assert isinstance(door.enter(size=1000), Wait)
        assert isinstance(door.enter("/now", size=1000), Permit)

    run(story)
