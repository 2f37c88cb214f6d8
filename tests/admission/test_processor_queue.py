"""The processor queue behind admission control: what waits while the processor is full, and what it costs its class."""

from __future__ import annotations

import asyncio

from qosweb.admission import Permit, Wait
from qosweb.admission.processor_queue import ACTIVE_S, GAP_S, TURN_COST, ProcessorQueue
from qosweb.engine.replicated.upstreams import UpstreamReport
from tests.admission.requests import Door, Facts
from tests.cluster.runtime.loops import eventually, run

SPEC = "</a>.server_resource = 70%\n</b>.server_resource = 30%\n"
BODY = 100_000


def full(door: Door) -> ProcessorQueue:
    processor = door.control.processor
    assert processor is not None
    processor.is_full = processor.queues_all = True
    door.control.refresh_limit()
    return processor


async def permitted(door: Door, size: int | None) -> Permit:
    before = len(door.decided)
    assert isinstance(door.enter("/a", size), Wait)
    await eventually(lambda: len(door.decided) > before)
    permit = door.decided[-1]
    assert isinstance(permit, Permit)
    return permit


def test_a_response_of_unknown_size_is_charged_to_its_class_when_it_ends() -> None:
    async def story() -> None:
        door = Door(SPEC, 1 << 30, finds_processor=True)
        processor = full(door)
        for size, at_start in ((None, TURN_COST), (BODY, TURN_COST + BODY)):
            before = processor.order.work
            permit = await permitted(door, size)
            assert processor.order.work - before == at_start
            permit.close(BODY)
            assert processor.order.work - before == TURN_COST + BODY

    run(story)


def test_a_class_that_is_alone_takes_the_fast_path_to_a_server_and_is_charged() -> None:
    async def story() -> None:
        door = Door(SPEC, 1 << 30, finds_processor=True)
        control, servers = door.control, (("app", True),)
        assert control.engine is not None
        assert control.driver is not None
        control.engine.report_upstreams([UpstreamReport("app", "http://app", True, 4, 1, (), ())])
        control.driver.turn()
        processor = full(door)
        account = control.classify(Facts(path="/a"), door.clock.read())
        hold = control.hold(account, servers, "app", door.clock.read())
        assert hold is not None
        control.release(hold, BODY, door.clock.read())
        assert processor.order.work == TURN_COST + BODY
        hold = control.hold(account, servers, "app", door.clock.read())
        assert hold is not None
        control.permit_for(hold).close(BODY)  # it turned out to need more than the fast path
        assert processor.order.work == 2 * (TURN_COST + BODY)
        assert isinstance(door.enter("/b", 10), Wait)
        assert control.hold(account, servers, "app", door.clock.read()) is None  # the classes take turns
        await eventually(lambda: len(door.decided) == 1)
        assert control.hold(account, servers, "app", door.clock.read()) is None
        assert control.hold(account, servers, "app", door.clock.read() + ACTIVE_S) is not None

    run(story)


async def one_request(door: Door) -> None:
    before = len(door.decided)
    assert isinstance(door.enter("/a", 10), Wait)
    while len(door.decided) == before:  # noqa: ASYNC110
        await asyncio.sleep(0)


def test_the_processor_is_short_only_if_requests_wait_for_a_while() -> None:
    """Short gaps do not count: clients in a closed loop ask again a moment after all of them were answered."""

    async def story() -> None:
        door = Door(SPEC, 1 << 30, finds_processor=True)
        processor = full(door)
        for _ in range(3):
            await one_request(door)
            assert processor.shortage() is None  # not yet
            await asyncio.sleep(2 * GAP_S)
        while processor.shortage() is None:
            await one_request(door)
        await eventually(lambda: processor.shortage() is None)

    run(story)
