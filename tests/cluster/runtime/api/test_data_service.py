"""`cluster.DataService` as a library: updates, shared queries, errors, and stopping; in one loop, over real sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import cluster
from cluster import DataResult, DataService, Full, NotDelivered, QueryFailed, Replica
from cluster.data.member_load import SERVICE_S
from cluster.runtime.api import data_service
from cluster.runtime.commands.counter_machine import CounterMachine
from tests.cluster.runtime.api.test_interim_service import options
from tests.cluster.runtime.loops import eventually, run

if TYPE_CHECKING:
    from pathlib import Path


async def three(sharing: str = "round robin") -> tuple[DataService, DataService, DataService]:
    a = await DataService.found(options("a"), CounterMachine(), sharing=sharing)
    b = await DataService.join(options("b", *a.addresses), CounterMachine(), sharing=sharing)
    c = await DataService.join(options("c", *a.addresses), CounterMachine(), sharing=sharing)
    for service in (a, b, c):
        await service.replica.primary_of(3)
    return a, b, c


def test_the_library_exports_the_service() -> None:
    assert cluster.DataService is DataService
    assert {"DataResult", "QueryFailed", "QueryableMachine"} <= set(cluster.__all__)


@pytest.mark.parametrize("sharing", ["round robin", "least loaded"])
def test_updates_and_queries_at_all_members(sharing: str) -> None:
    async def story() -> None:
        a, b, c = await three(sharing)
        async with a, b, c:
            reply = await b.update(b"x")
            assert reply.result == 1
            for service in (a, b, c):  # the client goes from member to member
                found = await service.query(b"count", seen=reply.index)
                assert found.result == b"1"
                assert found.index >= reply.index
                reply = found
            before = [service.executed for service in (a, b, c)]
            await asyncio.gather(*(a.query(b"%d" % number) for number in range(60)))
            done = [service.executed - count for service, count in zip((a, b, c), before, strict=True)]
            assert sum(done) == 60
            if sharing == "round robin":
                assert done == [20, 20, 20]

    run(story)


def test_the_members_report_their_loads() -> None:
    async def story() -> None:
        a, b, c = await three("least loaded")
        async with a, b, c:
            asking = a.replica.group.driver.process.data
            assert asking is not None
            load = asking.load  # as the member that asks knows it
            assert all(load[member.me].service_s == SERVICE_S for member in (b, c))
            burst = [asyncio.ensure_future(a.query(b"%d" % number)) for number in range(300)]
            await eventually(lambda: all(load[member.me].service_s != SERVICE_S for member in (b, c)))
            await asyncio.gather(*burst)
            assert a.replica.reports is not None
            assert {"b", "c"} <= a.replica.reports.current.keys()

    run(story)


def test_a_query_that_fails_and_queries_that_are_wrong() -> None:
    async def story() -> None:
        async with await DataService.found(options("a"), CounterMachine()) as a:
            with pytest.raises(QueryFailed, match="ValueError: asked to fail"):
                await a.query(b"fail")
            with pytest.raises(ValueError, match="at most 65536 are allowed"):
                await a.query(b"x" * 70_000)
            with pytest.raises(ValueError, match="not -1"):
                await a.query(b"x", seen=-1)
            assert (await a.query(b"count")).result == b"0"
        with pytest.raises(ValueError, match="'round robin' or 'least loaded', not 'random'"):
            await DataService.found(options("b"), CounterMachine(), sharing="random")

    run(story)


def test_queries_that_wait_are_bounded_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_service, "OUTSTANDING_MAX", 2)

    async def story() -> None:
        async with await DataService.found(options("a"), CounterMachine()) as a:
            await a.replica.primary_of(1)
            waiting = [asyncio.ensure_future(a.query(b"x", seen=10**6)) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(Full, match="2 queries of this member wait"):
                await a.query(b"y")
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            assert (await a.query(b"count")).result == b"0"

    run(story)


def test_a_member_that_stops_says_so() -> None:
    async def story() -> None:
        a = await DataService.found(options("a"), CounterMachine())
        waiting = asyncio.ensure_future(a.query(b"x", seen=10**6))
        await asyncio.sleep(0)
        await a.close()
        with pytest.raises(NotDelivered, match="closed"):
            await waiting
        with pytest.raises(NotDelivered, match="does not run"):
            await a.query(b"x")

    run(story)


def test_a_member_without_the_service_in_the_view() -> None:
    async def story() -> None:
        a = await DataService.found(options("a"), CounterMachine())
        plain = await Replica.join(options("b", *a.addresses), CounterMachine())
        async with a, plain:
            await a.replica.primary_of(2)
            reply = await a.update(b"x")
            assert (await a.query(b"count", seen=reply.index)).result == b"1"
            assert a.executed == 1

    run(story)


def test_a_restarted_member_continues_with_its_index(tmp_path: Path) -> None:
    async def story() -> None:
        async with await DataService.found(options("a", data=tmp_path), CounterMachine()) as a:
            reply = await a.update(b"x")
        async with await DataService.join(options("a", data=tmp_path), CounterMachine()) as a:
            assert (await a.query(b"count", seen=reply.index)).result == b"1"
            await eventually(lambda: a.primary is not None)
            assert await a.update(b"y") == DataResult(2, a.index)
            assert a.me.name == "a"

    run(story)
