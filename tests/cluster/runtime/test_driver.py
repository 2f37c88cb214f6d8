"""Driver: effects in order, records durable before dependent effects, and slow, full or failing disks."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import msgspec
import pytest

from cluster import Group, Options
from cluster.actions import DvsNewView
from cluster.durable import Epoch, Image, founding_image
from cluster.layer import Persist
from cluster.names import ProcessId, founding_view
from cluster.runtime.api.group import InDoubt, NotDelivered
from cluster.runtime.api.options import Bounds
from cluster.runtime.disk.store_errors import DamagedDisk, DiskFailed, DiskFull, DiskUnwritable
from cluster.runtime.fatal_errors import DiskRefuses
from tests.cluster.runtime.loops import eventually, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cluster.durable import Record
    from cluster.runtime.disk.rows import Recovery

KEY = b"k" * 32


class TestStore:
    """A disk that a test can block or fill."""

    __test__ = False

    def __init__(self, image: Image, founding: str) -> None:
        self._image = image
        self.founding = founding
        self.recoveries: tuple[Recovery, ...] = ()
        self.goes = threading.Event()
        self.goes.set()
        self.full = False
        self.refuses: Exception = DiskFull("there is no space left")
        self.refused = 0
        self.transactions: list[list[Record]] = []
        self.on_write: Callable[[], None] = lambda: None

    def load(self) -> Image:
        return self._image

    def write(self, records: Sequence[Record]) -> None:
        self.goes.wait(20)
        self.on_write()
        if self.full:
            self.refused += 1
            raise self.refuses
        self.transactions.append(list(records))

    def belong_to(self, founding: str) -> None:
        self.founding = founding

    def learn_recoveries(self, theirs: tuple[Recovery, ...]) -> None: ...

    def close(self) -> None: ...


async def begin(name: str, *contacts: str, trace: Path | None = None) -> tuple[Group, TestStore]:
    options = Options(name=name, key=KEY, listen=("127.0.0.1:0",), contacts=contacts, trace=trace)
    me = ProcessId(name)
    store = TestStore(Image(), "") if contacts else TestStore(founding_image(me), "founded")
    return await Group._begin(options, me, store, None, founder=not contacts), store


async def three() -> tuple[list[Group], list[TestStore]]:
    a, disk_a = await begin("a")
    b, disk_b = await begin("b", *a.addresses)
    c, disk_c = await begin("c", *a.addresses)
    for member in (a, b, c):
        await member.primary_of(3)
    return [a, b, c], [disk_a, disk_b, disk_c]


def test_nothing_is_confirmed_before_it_is_on_every_disk() -> None:
    async def story() -> None:
        (a, b, c), (_, _, slow) = await three()
        async with a, b, c:
            await a.broadcast(b"x")
            slow.goes.clear()
            waiting = asyncio.ensure_future(a.broadcast(b"y"))
            await eventually(lambda: c.driver._writing)
            assert not waiting.done()
            written = len(slow.transactions)
            slow.goes.set()
            await waiting
            assert len(slow.transactions) > written

    run(story)


def test_the_state_machine_sees_an_entry_when_it_is_on_the_local_disk() -> None:
    async def story() -> None:
        (a, b, c), (slow, _, _) = await three()
        async with a, b, c:
            await a.broadcast(b"x")
            slow.goes.clear()
            order = a.driver.process.total_order
            before = order.length
            waiting = asyncio.ensure_future(a.broadcast(b"y"))
            await eventually(lambda: order.next_confirm > before)  # all others have acknowledged the entry
            assert a.position == before
            assert not waiting.done()
            slow.goes.set()
            await waiting
            assert a.position == order.length

    run(story)


def test_records_that_arrive_during_a_write_join_the_next_transaction() -> None:
    async def story() -> None:
        (a, b, c), (disk, _, _) = await three()
        async with a, b, c:
            await asyncio.gather(*(member.broadcast(b"x" * 50) for member in (a, b, c) for _ in range(100)))
            records = sum(map(len, disk.transactions))
            assert len(disk.transactions) < records

    run(story)


def test_a_trace_has_a_view_change_before_the_records_beyond_it_are_on_disk(tmp_path: Path) -> None:
    """Else a process that is killed in between returns in a view that it never attempted, by its trace."""

    async def story() -> None:
        a, disk = await begin("a", trace=tmp_path / "trace")
        async with a:
            driver = a.driver
            await a.broadcast(b"x")
            await eventually(lambda: not driver._effects)
            assert driver.recorder is not None
            traced: list[bool] = []  # at each transaction, whether the trace has the view change
            disk.on_write = lambda: traced.append(b"other" in (tmp_path / "trace").read_bytes())
            before, done = len(disk.transactions), driver._done
            driver.recorder.note(DvsNewView(founding_view(ProcessId("other"))), done + 1)
            driver._perform([Persist(Epoch(7)), Persist(Epoch(8)), Persist(Epoch(9))])
            await eventually(lambda: driver._done >= done + 3)
            assert disk.transactions[before:] == [[Epoch(7)], [Epoch(8), Epoch(9)]]
            assert traced == [False, True]

    run(story)


def test_a_member_whose_disk_is_full_is_left_out_and_comes_back() -> None:
    async def story() -> None:
        (a, b, c), (_, _, disk) = await three()
        async with a, b, c:
            disk.full = True
            done = asyncio.ensure_future(a.broadcast(b"x"))
            await eventually(lambda: disk.refused >= 2)
            await eventually(lambda: c.driver.write_failing)
            await done  # the others continued without it
            assert a.primary is not None
            assert len(a.primary.members) == 2
            disk.full = False
            for member in (a, b, c):
                await member.primary_of(3)
            await eventually(lambda: not c.driver.write_failing)
            await c.broadcast(b"y")

    run(story)


@pytest.mark.parametrize(
    "error",
    [DamagedDisk("a page is torn"), DiskFailed("the platter"), DiskUnwritable("read-only"), OSError(5, "input/output")],
    ids=lambda error: type(error).__name__,
)
def test_a_member_whose_disk_fails_stops_and_the_others_go_on(error: Exception) -> None:
    async def story() -> None:
        (a, b, c), (_, _, disk) = await three()
        async with a, b, c:
            disk.refuses, disk.full = error, True
            waiting = asyncio.ensure_future(c.broadcast(b"x"))
            await asyncio.gather(waiting, return_exceptions=True)
            # Another record may have been refused before: then no member has seen the entry.
            assert isinstance(waiting.exception(), InDoubt | NotDelivered)
            assert disk.refused == 1
            assert str(error) in str(c.error)
            assert c.primary is None
            await asyncio.wait_for(c.stopped.wait(), 5)
            await a.primary_of(2)
            await a.broadcast(b"y")
            with pytest.raises(NotDelivered, match="stopped"):
                c.broadcast_nowait(b"z")

    run(story)


def test_a_member_stops_if_its_disk_stays_full() -> None:
    async def story() -> None:
        (a, b, c), (_, _, disk) = await three()
        async with a, b, c:
            hurried = msgspec.structs.replace(c.options, bounds=Bounds(disk_wait_s=0.2))
            c.driver.options = hurried
            disk.full = True
            await a.broadcast(b"x")
            await eventually(lambda: c.error is not None)
            assert isinstance(c.error, DiskRefuses)
            assert disk.refused > 1
            await a.primary_of(2)

    run(story)


def test_a_process_that_raises_stops_and_the_others_go_on() -> None:
    async def story() -> None:
        (a, b, c), _ = await three()
        async with a, b, c:
            c.driver.process.total_order.next_report = -1  # an impossible state
            waiting = asyncio.ensure_future(c.broadcast(b"x"))
            await eventually(lambda: c.error is not None)
            await asyncio.gather(waiting, return_exceptions=True)
            assert waiting.exception() is not None
            await a.primary_of(2)
            await a.broadcast(b"y")

    run(story)
