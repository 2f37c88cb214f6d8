"""`cluster.Bulk`: members in one process, with real sockets and files."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from cluster import Bulk, BulkClosed, BulkMessage, MulticastGroup, Options, SendProgress
from cluster.bulk.effects import Outcome
from cluster.runtime.api.bulk import AHEAD_MAX
from tests.cluster.runtime.loops import eventually, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

KEY = b"k" * 32


def options(name: str, *contacts: str, host: str = "127.0.0.1") -> Options:
    return Options(name=name, key=KEY, listen=(f"{host}:0",), contacts=contacts)


async def chunks(content: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(content), 50_000):
        yield content[at : at + 50_000]


async def three(folder: Path, multicast: MulticastGroup | None = None, host: str = "127.0.0.1") -> list[Bulk]:
    first = await Bulk.found(options("a", host=host), folder / "a", multicast)
    contact = first.replica.addresses[0]
    others = [await Bulk.join(options(name, contact, host=host), folder / name, multicast) for name in "bc"]
    members = [first, *others]
    await eventually(lambda: all(len(member.members) == 3 for member in members))
    return members


async def take(member: Bulk, count: int) -> list[bytes]:
    found = []
    async for message in member.deliveries():
        assert isinstance(message, BulkMessage)
        found.append(await asyncio.to_thread(message.path.read_bytes))
        assert len(found[-1]) == message.size
        message.path.unlink()
        if len(found) == count:
            return found
    raise AssertionError("closed")


async def close(members: list[Bulk]) -> None:
    for member in members:
        await member.close()


async def exchange(members: list[Bulk], sizes: tuple[int, ...]) -> None:
    contents = [random.Random(size).randbytes(size) for size in sizes]
    senders = [members[at % len(members)].send(chunks(content)) for at, content in enumerate(contents)]
    assert await asyncio.gather(*senders) == [Outcome.ACCEPTED] * len(sizes)
    got = [await take(member, len(sizes)) for member in members]
    assert got[0] == got[1] == got[2]
    assert sorted(got[0]) == sorted(contents)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_all_members_deliver_the_same_messages_in_one_order(tmp_path: Path, host: str) -> None:
    async def story() -> None:
        members = await three(tmp_path, host=host)
        await exchange(members, (0, 1, 1200, 1201, 300_000))
        await close(members)
        assert not [path for name in "abc" for path in (tmp_path / name).iterdir()]

    run(story)


def test_a_multicast_group_on_an_interface(tmp_path: Path) -> None:
    async def story() -> None:
        port = 20_000 + random.randrange(10_000)
        members = await three(tmp_path, MulticastGroup(f"239.255.71.9:{port}", "lo"))
        await exchange(members, (200_000,))
        await close(members)

    run(story)


def test_progress_and_lost_datagrams(tmp_path: Path) -> None:
    async def story() -> None:
        members = await three(tmp_path)
        sender, receiver = members[0], members[2]
        lossy = random.Random(4)
        open_all = receiver._driver.codec.open
        receiver._driver.codec.open = lambda datagram: None if lossy.random() < 0.1 else open_all(datagram)  # type: ignore[method-assign]
        content = random.Random(1).randbytes(1_000_000)
        reports: list[SendProgress] = []
        outcome = await sender.send(chunks(content), reports.append)
        assert outcome is Outcome.ACCEPTED
        last = reports[-1]
        assert (last.size, last.is_ended, last.sent) == (1_000_000, True, 1_000_000)
        assert last.receivers == dict.fromkeys("abc", 1_000_000)
        assert (last.repeated, last.naks) == (sender.repeated, sender.naks_received)
        assert await take(receiver, 1) == [content]
        assert receiver.naks > 0
        assert sender.repeated > 0
        await close(members)

    run(story)


def test_a_failing_spool_stops_the_member_and_leaves_no_hole(tmp_path: Path) -> None:
    async def story() -> None:
        members = await three(tmp_path)
        writes = 0

        def write(number: int, packet: int, payload: bytes) -> None:
            nonlocal writes
            writes += 1
            if writes > 20:
                raise OSError(28, "No space left on device")
            healthy(number, packet, payload)

        healthy = members[2]._spool.write
        members[2]._spool.write = write  # type: ignore[method-assign]
        content = random.Random(2).randbytes(200_000)
        assert await members[0].send(chunks(content)) is Outcome.ACCEPTED
        await eventually(lambda: members[2].error is not None)
        assert [message async for message in members[2].deliveries()] == []
        assert await take(members[1], 1) == [content]
        with pytest.raises(BulkClosed):
            await members[2].send(chunks(b"x"))
        await close(members)

    run(story)


def test_content_that_cannot_be_read_is_rejected_and_the_next_message_follows(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield random.Random(3).randbytes(100_000)
        raise OSError(5, "Input/output error")

    async def story() -> None:
        members = await three(tmp_path)
        with pytest.raises(OSError, match="Input/output error"):
            await members[1].send(broken())
        assert await members[1].send(chunks(b"afterwards")) is Outcome.ACCEPTED
        assert [await take(member, 1) for member in members] == [[b"afterwards"]] * 3
        await close(members)

    run(story)


def test_content_is_not_read_faster_than_it_is_sent(tmp_path: Path) -> None:
    async def story() -> None:
        members = await three(tmp_path)
        for member in members[1:]:
            await member.close()
        await eventually(lambda: members[0].replica.primary is None)
        taken = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal taken
            while True:
                taken += 1
                yield bytes(1_000_000)

        sending = asyncio.ensure_future(members[0].send(endless()))
        await eventually(lambda: taken > AHEAD_MAX // 1_000_000)
        await asyncio.sleep(0.2)
        assert taken <= AHEAD_MAX // 1_000_000 + 2
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert not list((tmp_path / "a").glob("*.out"))
        await members[0].close()

    run(story)


def test_a_slow_consumer_slows_all_or_falls_behind(tmp_path: Path) -> None:
    """One member takes no data for a while: `send` waits for it, or does not."""

    async def story() -> None:
        members = await three(tmp_path)
        slow = members[2]
        slow._driver._takes = lambda packet: False  # type: ignore[method-assign]  # noqa: ARG005
        content = random.Random(5).randbytes(300_000)
        assert await members[0].send(chunks(content), min_rate=1e6) is Outcome.ACCEPTED
        sending = asyncio.ensure_future(members[0].send(chunks(b"waits")))
        assert await take(members[1], 2) == [content, b"waits"]
        assert not sending.done()
        del slow._driver._takes
        assert await sending is Outcome.ACCEPTED
        assert await take(slow, 2) == [content, b"waits"]
        await close(members)

    run(story)


def test_progress_names_the_receivers_that_got_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        members = await three(tmp_path)
        members[2]._driver.codec.open = lambda datagram: None  # type: ignore[method-assign]  # noqa: ARG005
        reports: list[SendProgress] = []
        outcome = await members[0].send(chunks(b"content"), reports.append, min_rate=1e6)
        assert outcome is Outcome.ACCEPTED
        assert reports[-1].receivers["c"] == 0
        assert 7 in (reports[-1].receivers["a"], reports[-1].receivers["b"])
        await close(members)

    run(story)


def test_the_last_progress_counts_receivers_also_when_the_message_is_not_kept_any_more(tmp_path: Path) -> None:
    async def story() -> None:
        members = await three(tmp_path)
        sender, loop, resolve = members[0], asyncio.get_running_loop(), members[0].on_everywhere

        def later(request: int) -> None:
            loop.call_later(0.1, drop, request)

        def drop(request: int) -> None:
            assert not sender._process.producer.current
            sender._process.producer.retained.clear()
            resolve(request)

        sender.on_everywhere = later  # type: ignore[method-assign]
        reports: list[SendProgress] = []
        assert await sender.send(chunks(b"content"), reports.append) is Outcome.ACCEPTED
        assert reports[-1].receivers == dict.fromkeys("abc", 7)
        await close(members)

    run(story)


def test_a_minority_does_not_send(tmp_path: Path) -> None:
    async def story() -> None:
        members = await three(tmp_path)
        await close(members[:2])
        sending = asyncio.ensure_future(members[2].send(chunks(b"alone")))
        await eventually(lambda: members[2].replica.primary is None)
        assert not sending.done()
        await members[2].close()
        with pytest.raises(BulkClosed):
            await sending

    run(story)


def test_a_group_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a multicast address"):
        MulticastGroup("127.0.0.1:7", "lo").validate()
    with pytest.raises(ValueError, match="no network interface 'nosuch'"):
        MulticastGroup("239.1.1.1:7", "nosuch").validate()


def test_a_member_that_joins_late_says_from_where_it_receives(tmp_path: Path) -> None:
    """It listens before it has joined: a message that begins in this time does not reach it."""

    async def story() -> None:
        first = await Bulk.found(options("a"), tmp_path / "a")
        assert await first.joined() == 2  # message 1 says that it joined
        assert await first.send(chunks(b"early")) is Outcome.ACCEPTED
        late = await Bulk.join(options("b", first.replica.addresses[0]), tmp_path / "b")
        late._driver.codec.open = lambda datagram: None  # type: ignore[method-assign]  # noqa: ARG005
        joining = asyncio.ensure_future(late.joined())
        assert await first.send(chunks(b"meanwhile"), min_rate=1e6) is Outcome.ACCEPTED
        assert not joining.done()
        del late._driver.codec.open
        receives = await joining
        assert await first.send(chunks(b"late")) is Outcome.ACCEPTED
        assert await take(late, 1) == [b"late"]
        assert receives <= first._process.context.master.next - 1
        await close([late, first])

    run(story)


def test_a_member_that_is_closed_before_it_has_joined_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        first = await Bulk.found(options("a"), tmp_path / "a")
        second = await Bulk.join(options("b", first.replica.addresses[0]), tmp_path / "b")
        second._driver.codec.open = lambda datagram: None  # type: ignore[method-assign]  # noqa: ARG005
        joining = asyncio.ensure_future(second.joined())
        await close([second, first])
        with pytest.raises(BulkClosed, match="before it had joined"):
            await joining

    run(story)
