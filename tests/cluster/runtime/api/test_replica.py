"""`cluster.Replica` over real sockets: a state machine on several members, and restart after divergence."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cluster import Options, Replica
from cluster.runtime.api.group import IN_DOUBT, InDoubt, NotDelivered
from cluster.runtime.api.options import RUNTIME_SETTINGS
from cluster.runtime.commands.counter_machine import CounterMachine
from cluster.runtime.disk.database_file import ASIDE
from cluster.runtime.observe.metrics import GroupCollector
from tests.cluster.runtime.loops import eventually, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from cluster.layer import Delivered
    from cluster.names import ProcessId, View

KEY = b"k" * 32
OFTEN = msgspec.structs.replace(RUNTIME_SETTINGS, snapshot_every=10)


class Forgetful(CounterMachine):
    """A non-deterministic machine: it skips one entry once."""

    __slots__ = ("forgets",)

    def __init__(self, forgets: bytes) -> None:
        super().__init__()
        self.forgets = forgets

    def apply(self, position: int, origin: ProcessId, body: bytes) -> object:
        if body == self.forgets:
            self.forgets = b""
            return 0
        return super().apply(position, origin, body)


def options(name: str, *contacts: str, data: Path | None = None) -> Options:
    return Options(name=name, key=KEY, listen=("127.0.0.1:0",), contacts=contacts, settings=OFTEN, data=data)


@asynccontextmanager
async def begin(*machines: CounterMachine, data: Path | None = None) -> AsyncIterator[list[Replica]]:
    replicas: list[Replica] = []
    async with AsyncExitStack() as stack:
        for name, machine in zip("abcde", machines, strict=False):
            disk = data / name if data is not None else None
            if not replicas:
                replica = await Replica.found(options(name, data=disk), machine)
            else:
                replica = await Replica.join(options(name, *replicas[0].addresses, data=disk), machine)
            replicas.append(await stack.enter_async_context(replica))
        for replica in replicas:
            await replica.primary_of(len(replicas))
        yield replicas


async def until_alike(replicas: list[Replica]) -> None:
    await eventually(lambda: len({(replica.position, replica.digest()) for replica in replicas}) == 1)


def test_a_machine_on_three_members() -> None:
    async def story() -> None:
        async with begin(CounterMachine(), CounterMachine(), CounterMachine()) as replicas:
            a, b, c = replicas
            seen: list[View | None] = []
            c.on_primary(seen.append)
            answers = await asyncio.gather(*(b.submit(b"%d" % i) for i in range(5)))
            assert answers == [1, 2, 3, 4, 5]
            ends: list[Delivered] = []
            a.submit_nowait(b"x", ends.append)
            a.submit_nowait(b"y")
            await eventually(lambda: len(ends) == 1 and c.machine.count == 7)  # type: ignore[attr-defined]
            assert (ends[0].delivered, ends[0].result) == (True, 6)
            await until_alike(replicas)
            assert seen == []
            await a.leave()
            await c.primary_of(2)
            assert a.primary is None
            assert seen[0] is None
            assert seen[-1] == c.primary
            first = [view async for view in a.views()]
            assert first == [None]
            with pytest.raises(NotDelivered):
                await a.submit(b"z")
            await c.close()
            assert c.primary is None
            assert seen[-1] is None

    run(story)


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_diverged_replica_takes_the_state_of_the_others(
    tmp_path: Path, wrong: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)

    async def story() -> None:
        machines = [CounterMachine(), CounterMachine(), CounterMachine()]
        machines[wrong] = Forgetful(b"13")
        async with begin(*machines, data=tmp_path) as replicas:
            sick, well = replicas[wrong], [replica for replica in replicas if replica is not replicas[wrong]]
            before = sick.me
            for i in range(40):
                await well[0].submit(b"%d" % i)
            await eventually(lambda: sick.restarts == 1)
            for replica in replicas:
                await replica.primary_of(3)
            assert sick.me.name == before.name
            assert sick.me != before
            await until_alike(replicas)
            assert await sick.submit(b"again") == 41
            for _ in range(3 * OFTEN.snapshot_every):
                await sick.submit(b"more")
            assert [replica.restarts for replica in replicas].count(0) == 2
            assert all(replica.group.error is None for replica in replicas)
            await until_alike(replicas)
            registry = CollectorRegistry()
            registry.register(GroupCollector(sick))
            assert "cluster_replica_restarts_total 1.0" in generate_latest(registry).decode()
            assert any(replica.group.diverged_count for replica in well)

    run(story)
    assert "restarts with an empty state: the state of this replica at position" in caplog.text
    assert (tmp_path / "abc"[wrong] / ASIDE / "group.db").exists()
    assert not (tmp_path / "abc"[wrong - 1] / ASIDE).exists()


def test_if_all_states_differ_the_lowest_member_wins() -> None:
    async def story() -> None:
        async with begin(CounterMachine(), Forgetful(b"12"), Forgetful(b"13")) as replicas:
            a, b, c = replicas
            for i in range(200):
                await a.submit(b"%d" % i)
                if b.restarts and c.restarts:
                    break
            await eventually(lambda: b.restarts == 1 and c.restarts == 1)
            for replica in replicas:
                await replica.primary_of(3)
            await until_alike(replicas)
            assert a.restarts == 0

    run(story)


def test_outstanding_entries_are_in_doubt_after_a_restart() -> None:
    async def story() -> None:
        async with begin(CounterMachine(), CounterMachine(), Forgetful(b"x")) as replicas:
            a, _, c = replicas
            await a.submit(b"x")

            def submit_until_it_stops() -> asyncio.Task[None]:
                async def submit() -> None:
                    while True:
                        await c.submit(b"of the wrong one")

                return asyncio.ensure_future(submit())

            pushing = [submit_until_it_stops() for _ in range(50)]
            done, _ = await asyncio.wait(pushing, return_when=asyncio.FIRST_EXCEPTION)
            assert {type(task.exception()) for task in done} <= {InDoubt, NotDelivered}
            for task in pushing:
                task.cancel()
            await asyncio.gather(*pushing, return_exceptions=True)
            await c.primary_of(3)
            await until_alike(replicas)

    run(story)


def test_callbacks_run_when_a_member_stops() -> None:
    async def story() -> None:
        async with begin(CounterMachine(), CounterMachine()) as (a, b):
            await a.close()
            await eventually(lambda: b.primary is None)  # of two members the lower one is the majority
            ends: list[Delivered] = []
            b.submit_nowait(b"y", ends.append)
            await b.close()
            assert [(end.delivered, end.reason[: len(IN_DOUBT)]) for end in ends] == [(False, IN_DOUBT)]

    run(story)
