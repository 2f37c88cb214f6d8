"""A member that delivers a backlog yields to its connections, its timers and other tasks in its loop.

Counted, not timed: between two loop turns it delivers at most one step.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import pytest

from cluster import Group, Options
from cluster.runtime import driver
from cluster.runtime.api.options import RUNTIME_SETTINGS
from cluster.runtime.commands.counter_machine import CounterMachine
from cluster.runtime.disk.store import Store
from tests.cluster.runtime.loops import eventually, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cluster.durable import Record
    from cluster.names import ProcessId

KEY = b"k" * 32
MISSED = 5_000
STEP = RUNTIME_SETTINGS.report_len_max
BESIDE = 4  # entries confirmed in the same turn may double a step
# A slow machine must not cause suspicion.
SETTINGS = msgspec.structs.replace(RUNTIME_SETTINGS, suspect_min=30.0, suspect_max=60.0)


def options(process: str, *contacts: str, **more: object) -> Options:
    made = Options(name=process, key=KEY, listen=("127.0.0.1:0",), contacts=contacts, settings=SETTINGS)
    return msgspec.structs.replace(made, **more)


class Counted(CounterMachine):
    """Counts the entries applied in each loop turn, and records the member's state then."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0  # loop turns that other tasks had
        self.in_turn: Counter[int] = Counter()
        self.positions: list[int] = []
        self.timers = 0
        self.member: Group | None = None
        self.told_early = False
        self.is_in_the_middle = asyncio.Event()

    def apply(self, position: int, origin: ProcessId, body: bytes) -> object:
        self.in_turn[self.turns] += 1
        self.positions.append(position)
        if len(self.positions) == MISSED // 5:
            self.is_in_the_middle.set()
        if self.member is not None and len(self.positions) < MISSED:
            self.told_early |= self.member.primary is not None
        return super().apply(position, origin, body)

    def begin(self) -> None:
        loop = asyncio.get_running_loop()

        def turn() -> None:
            self.turns += 1
            loop.call_soon(turn)

        def timer() -> None:
            self.timers += 0 < len(self.positions) < MISSED
            loop.call_later(0.0002, timer)

        loop.call_soon(turn)
        timer()


@pytest.fixture(autouse=True)
def one_step_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CATCH_UP_S", 0.0)


async def with_a_past(machine: CounterMachine) -> Group:
    founder = await Group.found(options("a"), machine)
    await founder.primary_of(1)
    await asyncio.gather(*(founder.broadcast(b"%d" % i) for i in range(MISSED)))
    return founder


def test_other_tasks_run_while_a_backlog_is_delivered() -> None:
    async def story() -> None:
        theirs, ours = CounterMachine(), Counted()
        async with await with_a_past(theirs) as a:
            ours.begin()
            async with await Group.join(options("b", a.addresses[0]), ours) as b:
                ours.member = b
                await ours.is_in_the_middle.wait()
                assert b.is_catching_up
                await b.primary_of(2)
                assert len(ours.positions) >= MISSED
                await asyncio.gather(*(member.broadcast(b"x") for member in (a, b)))
                await eventually(lambda: ours.chain == theirs.chain)
        assert ours.positions == sorted(set(ours.positions))
        assert not ours.told_early
        assert max(ours.in_turn.values()) <= STEP + BESIDE
        assert len(ours.in_turn) >= MISSED // (STEP + BESIDE)
        assert ours.timers > 0

    run(story)


def test_entries_submitted_meanwhile_follow_the_backlog_and_complete() -> None:
    async def story() -> None:
        theirs, ours = CounterMachine(), Counted()
        async with await with_a_past(theirs) as a, await Group.join(options("b", a.addresses[0]), ours) as b:
            await ours.is_in_the_middle.wait()
            answers = await asyncio.gather(*(member.broadcast(b"x") for _ in range(200) for member in (a, b)))
            assert sorted(answers) == list(range(MISSED + 1, MISSED + 401))  # type: ignore[type-var]
            await eventually(lambda: ours.chain == theirs.chain)
            assert ours.positions == sorted(set(ours.positions))

    run(story)


def test_a_member_closed_in_the_middle_resumes_from_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk would leave time to deliver the whole backlog while closing: the member must not do that."""
    write = Store.write

    def slowly(store: Store, records: Sequence[Record]) -> None:
        time.sleep(0.1)  # the fault
        write(store, records)

    async def story() -> None:
        theirs, ours, again = CounterMachine(), Counted(), Counted()
        async with await with_a_past(theirs) as a:
            b = await Group.join(options("b", a.addresses[0], data=tmp_path / "b"), ours)
            await ours.is_in_the_middle.wait()
            with monkeypatch.context() as disk:
                disk.setattr(Store, "write", slowly)
                await b.close()
            assert len(ours.positions) < MISSED
            assert ours.positions == sorted(set(ours.positions))
            async with await Group.join(options("b", a.addresses[0], data=tmp_path / "b"), again) as b:
                await b.broadcast(b"x")
                await eventually(lambda: again.chain == theirs.chain)
                assert again.positions == sorted(set(again.positions))
                assert again.count == MISSED + 1

    run(story)
