"""`cluster.InterimService` as a library: operations, merges, refreshes, restarts; in one loop, over real sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

import cluster
from cluster import Full, Group, InDoubt, InterimService, NotDelivered, Options, Replica
from cluster.runtime.api import interim_service
from cluster.runtime.commands.counter_machine import CounterMachine
from cluster.runtime.commands.shared_notes import SharedNotes
from tests.cluster.runtime.loops import eventually, run

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.names import ProcessId

KEY = b"k" * 32


def options(process: str, *contacts: str, **more: object) -> Options:
    return msgspec.structs.replace(
        Options(name=process, key=KEY, listen=("127.0.0.1:0",), contacts=contacts),
        **more,
    )


class Notes(InterimService):
    def __init__(self) -> None:
        self.notes = SharedNotes()
        super().__init__(self.notes)

    @property
    def names(self) -> str:
        return "".join(member.name for member in self.members)


def test_the_library_exports_the_service() -> None:
    assert cluster.InterimService is InterimService
    assert "SharedObject" in cluster.__all__


def test_operations_reach_all_members_and_a_newcomer_gets_the_state() -> None:
    async def story() -> None:
        a_notes, b_notes, c_notes = Notes(), Notes(), Notes()
        seen: list[tuple[ProcessId, ...]] = []
        b_notes.on_refresh(seen.append)
        a = await Group.found(options("a"), interim=a_notes)
        await eventually(lambda: a_notes.names == "a")
        assert await a_notes.request(b"alone") == 1
        async with a, await Group.join(options("b", *a.addresses), interim=b_notes) as b:
            await eventually(lambda: a_notes.names == b_notes.names == "ab")
            assert b_notes.notes.notes == {b"alone"}
            assert await b_notes.request(b"together") == 2
            assert await asyncio.gather(*(a_notes.request(b"%d" % i) for i in range(50))) == list(range(3, 53))
            await eventually(lambda: len(b_notes.notes.notes) == 52)
            async with await Group.join(options("c", *b.addresses), interim=c_notes):
                await eventually(lambda: c_notes.names == "abc")
                assert c_notes.shared.digest() == a_notes.shared.digest() == b_notes.shared.digest()
                assert c_notes.view == tuple(sorted(seen[-1]))
                assert not c_notes.is_merging
        assert ["".join(one.name for one in members) for members in seen][:1] != []

    run(story)


def test_a_restart_keeps_the_state(tmp_path: Path) -> None:
    async def story() -> None:
        notes = Notes()
        async with await Group.found(options("a", data=tmp_path), interim=notes):
            await notes.request(b"x")
            await notes.request(b"*1000 many")
        notes = Notes()
        async with await Group.join(options("a", data=tmp_path), interim=notes):
            assert len(notes.notes.notes) == 1001
            assert await notes.request(b"y") == 1002
        notes = Notes()
        async with await Group.join(options("a", data=tmp_path), interim=notes):
            assert b"y" in notes.notes.notes
        async with await Group.join(options("a", data=tmp_path)):
            pass  # a member without the service leaves the state as it is
        notes = Notes()
        async with await Group.join(options("a", data=tmp_path), interim=notes):
            assert len(notes.notes.notes) == 1002

    run(story)


def test_a_replica_has_the_service_too() -> None:
    async def story() -> None:
        notes = Notes()
        async with await Replica.found(options("a"), CounterMachine(), interim=notes) as replica:
            await replica.primary_of(1)
            assert await notes.request(b"x") == 1

    run(story)


def test_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        a_notes, b_notes = Notes(), Notes()
        with pytest.raises(NotDelivered, match="not attached"):
            await a_notes.request(b"x")
        a = await Group.found(options("a"), interim=a_notes)
        with pytest.raises(ValueError, match="already belongs"):
            await Group.found(options("a"), interim=a_notes)
        with pytest.raises(ValueError, match="at most"):
            await a_notes.request(bytes(interim_service.OPERATION_BYTES_MAX + 1))
        b = await Group.join(options("b", *a.addresses))  # without the service
        await eventually(lambda: len(a_notes.view) == 2)
        assert [member.name for member in a_notes.hindered_by] == ["b"]
        monkeypatch.setattr(interim_service, "OUTSTANDING_MAX", 1)
        waiting = asyncio.create_task(a_notes.request(b"waits"))
        await asyncio.sleep(0)
        with pytest.raises(Full, match="1 operations"):
            await a_notes.request(b"x")
        assert not waiting.done()
        await b.leave()
        assert await waiting == 1  # b is gone
        b = await Group.join(options("b", *a.addresses), interim=b_notes)
        await eventually(lambda: a_notes.names == "ab")
        b = await _left_without_service(b, a)
        await eventually(lambda: len(a_notes.hindered_by) == 1)
        waiting = asyncio.create_task(a_notes.request(b"in doubt"))
        await asyncio.sleep(0)
        await a.close()
        with pytest.raises(InDoubt, match="closed"):
            await waiting
        await b.close()

    async def _left_without_service(b: Group, a: Group) -> Group:
        await b.leave()
        return await Group.join(options("b", *a.addresses))

    run(story)
