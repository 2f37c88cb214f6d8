"""Unauthenticated and misbehaving peers: their connections are closed and counted, and members are not affected."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from cluster import Group, Options
from cluster.entries import APPLICATION, CHECKPOINT, VIEW, Entry, Pack, pack
from cluster.messages import (
    Ack,
    AppMsg,
    Batch,
    Data,
    FwdMsg,
    Payload,
    Plain,
    Registered,
    Slot,
    Summary,
    Supply,
    SyncMsg,
    ViewMsg,
)
from cluster.names import Label, ProcessId, View, ViewId
from cluster.run_log import Run
from cluster.runtime.api.options import Bounds, Tls
from cluster.runtime.commands.command_line import make_tls
from cluster.runtime.net.frame_validation import validate_frame
from cluster.runtime.net.handshake import (
    CROWD,
    FOREIGN_CLUSTER,
    GARBAGE,
    MAGIC,
    SLOW,
    VERSION,
    VERSION_MISMATCH,
    WRONG_KEY,
    Hail,
    Proof,
)
from cluster.runtime.net.wire import LENGTH, BadFrame
from tests.cluster.runtime.loops import eventually, run
from tests.support.tls import write_certificate

if TYPE_CHECKING:
    from pathlib import Path

KEY = b"k" * 32


def options(name: str, *contacts: str, key: bytes = KEY, cluster: str = "c", bounds: Bounds | None = None,
            tls: Tls | None = None) -> Options:  # fmt: skip
    return Options(
        name=name, key=key, cluster=cluster, listen=("127.0.0.1:0",), contacts=contacts, bounds=bounds or Bounds(),
        tls=tls,
    )  # fmt: skip


def framed(message: object) -> bytes:
    data = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(data)) + data


async def knock(group: Group, data: bytes) -> bytes:
    """Send data and read until the member closes the connection."""
    host, _, port = group.addresses[0].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def failures(group: Group) -> dict[str, int]:
    return {kind: count for kind, count in group.driver.transport.counters.handshakes_failed.items() if count}


HAIL = Hail(MAGIC, VERSION, "c", b"n" * 32)
# a greeting with one extra element: deeply nested lists
DEEP = (b"\x96" + msgspec.msgpack.encode(HAIL)[1:]).ljust(4000, b"\x91")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", GARBAGE),
        (LENGTH.pack(0xFFFFFFFF), GARBAGE),
        (LENGTH.pack(5) + b"12345", GARBAGE),
        (framed(Hail("other", VERSION, "c", b"n" * 32)), GARBAGE),
        (framed(Hail(MAGIC, VERSION + 1, "c", b"n" * 32)), VERSION_MISMATCH),
        (framed(Hail(MAGIC, VERSION, "d", b"n" * 32)), FOREIGN_CLUSTER),
        (framed(Proof(b"", b"")), GARBAGE),
        (framed(HAIL) + framed(Proof(b"", b"x" * 32)), WRONG_KEY),
        (LENGTH.pack(4000) + DEEP, GARBAGE),
    ],
    ids=["http", "endless", "bytes", "magic", "version", "cluster", "proof first", "wrong key", "deep"],
)
def test_an_invalid_handshake_is_refused_and_counted(said: bytes, kind: str) -> None:
    async def story() -> None:
        async with await Group.found(options("a")) as group:
            await knock(group, said)
            await eventually(lambda: failures(group) == {kind: 1})
            assert await group.broadcast(b"goes on") is None

    run(story)


def test_a_slow_handshake_ends() -> None:
    async def story() -> None:
        async with await Group.found(options("a", bounds=Bounds(handshake_s=0.2))) as group:
            assert await knock(group, b"\x00") == b""
            await eventually(lambda: failures(group) == {SLOW: 1})

    run(story)


def test_unauthenticated_connections_are_bounded() -> None:
    async def story() -> None:
        async with await Group.found(options("a", bounds=Bounds(strangers_max=4))) as group:
            host, _, port = group.addresses[0].rpartition(":")
            writers = [(await asyncio.open_connection(host, int(port)))[1] for _ in range(10)]
            await eventually(lambda: failures(group).get(CROWD) == 6)
            for writer in writers:
                writer.close()
            await eventually(lambda: not group.driver.transport._strangers)
            async with await Group.join(options("b", group.addresses[0])) as other:
                await other.primary_of(2)

    run(story)


def test_failed_tls_handshakes_release_their_places(tmp_path: Path) -> None:
    """asyncio does not report failed TLS handshakes: silent and invalid peers must be dropped all the same."""
    certificate, key = write_certificate(tmp_path)
    tls = make_tls(certificate, key, certificate)

    async def story() -> None:
        bounds = Bounds(strangers_max=4, handshake_s=1.0)
        async with await Group.found(options("a", bounds=bounds, tls=tls)) as group:
            transport = group.driver.transport
            host, _, port = group.addresses[0].rpartition(":")
            writers = [(await asyncio.open_connection(host, int(port)))[1] for _ in range(6)]
            for writer in writers[::2]:
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await eventually(lambda: failures(group) == {SLOW: 4, CROWD: 2})
            assert transport.counters.accepted == 6
            assert not transport._strangers
            async with await Group.join(options("b", group.addresses[0], tls=tls)) as other:
                await other.primary_of(2)
            for writer in writers:
                writer.close()

    run(story)


def test_a_process_with_another_key_never_joins() -> None:
    async def story() -> None:
        async with (
            await Group.found(options("a")) as group,
            await Group.join(options("b", group.addresses[0], key=b"x" * 32)) as other,
        ):
            await eventually(lambda: failures(group).get(WRONG_KEY, 0) >= 2)
            assert other.primary is None
            assert not group.driver.transport.connections

    run(story)


def test_an_authenticated_peer_that_sends_garbage_is_ejected() -> None:
    async def story() -> None:
        async with (
            await Group.found(options("a")) as a,
            await Group.join(options("b", a.addresses[0])) as b,
            await Group.join(options("c", a.addresses[0])) as c,
        ):
            for member in (a, b, c):
                await member.primary_of(3)
            for connection in c.driver.transport.connections.values():
                connection.put((LENGTH.pack(3) + b"\xc1\xc1\xc1",))
            c.driver.transport.flush()
            await eventually(lambda: a.driver.transport.counters.ejected + b.driver.transport.counters.ejected == 2)
            await a.broadcast(b"goes on")

    run(story)


def supply(entries: Pack) -> Supply:
    return Supply(ViewId(1, "x"), 0, 1, -1, b"", 0, (Run(ViewId(1, "x"), 1, ProcessId("c"), entries),))


NO_CHECKPOINT = Batch(99, pack([Entry(CHECKPOINT, b"nonsense")]))


@pytest.mark.parametrize(
    "body",
    [
        AppMsg(Plain(0, NO_CHECKPOINT)),
        AppMsg(Slot(0, 1, 1, None, 0, Batch(99, pack([Entry(VIEW, b"")])))),
        AppMsg(Slot(0, 1, 1, None, 0, Batch(99, pack([Entry("unheard of", b"")])))),
        FwdMsg(ProcessId("c"), ViewId(1, "x"), Plain(0, NO_CHECKPOINT), 1),
        AppMsg(Plain(0, Summary(0, 0, ((Label(ViewId(1, "x"), 1, ProcessId("c")), Entry(VIEW, b"x")),), (), None, ()))),
        supply(pack([Entry(VIEW, b"x")])),
    ],
    ids=["checkpoint", "view", "unknown", "forwarded", "summary", "supply"],
)
def test_inapplicable_entries_are_rejected(body: Payload) -> None:
    with pytest.raises(BadFrame, match=r"entry (of )?kind"):
        validate_frame(body)


@pytest.mark.parametrize("unsound", [Pack(2, pack([Entry(APPLICATION, b"one")]).packed), Pack(1, b"no entries at all")])
def test_malformed_packs_are_rejected(unsound: Pack) -> None:
    with pytest.raises(BadFrame, match="malformed entries in a pack"):
        validate_frame(AppMsg(Slot(0, 1, 1, None, 0, Batch(99, unsound))))
    with pytest.raises(BadFrame, match="malformed entries in a pack"):
        validate_frame(supply(unsound))


def test_empty_runs_are_rejected() -> None:
    with pytest.raises(BadFrame, match="empty run"):
        validate_frame(supply(pack([])))


def test_nonsense_from_an_authenticated_peer_does_not_affect_the_others() -> None:
    """The frames are well-formed but make no sense."""

    async def story() -> None:
        async with (
            await Group.found(options("a")) as a,
            await Group.join(options("b", a.addresses[0])) as b,
            await Group.join(options("c", a.addresses[0])) as c,
        ):
            for member in (a, b, c):
                await member.primary_of(3)
            nowhere = ViewId(2**40, "nowhere")
            for payload in (
                Ack(nowhere, 2**50), SyncMsg(-1, nowhere, (-5,)), ViewMsg(View(nowhere, (c.me,), (-1,))),
                FwdMsg(b.me, nowhere, Plain(-1, Registered()), -7), AppMsg(Slot(-1, -1, -1, (-1,), 2**60, None)),
                AppMsg(Plain(0, NO_CHECKPOINT)),
            ):  # fmt: skip
                for peer in (a.me, b.me):
                    link = c.driver.process.links.link(peer)
                    link.seqno += 1
                    link.unacked.append(payload)
                    c.driver.transport.send((peer,), Data(link.stream, link.seqno, payload))
            c.driver.transport.flush()
            await eventually(lambda: a.driver.transport.counters.ejected + b.driver.transport.counters.ejected >= 2)
            await c.close()
            await a.primary_of(2)
            await a.broadcast(b"goes on")
            assert a.error is b.error is None

    run(story)


def test_a_member_that_violates_the_protocol_is_refused_for_a_while() -> None:
    """An ordered message with an impossible label: all others ignore it alike and cut off its sender."""

    async def story() -> None:
        bounds = Bounds(ejected_s=1.0)
        async with (
            await Group.found(options("a", bounds=bounds)) as a,
            await Group.join(options("b", a.addresses[0], bounds=bounds)) as b,
            await Group.join(options("c", a.addresses[0], bounds=bounds)) as c,
        ):
            for member in (a, b, c):
                await member.primary_of(3)
            c.driver.process.primary.below.send(Batch(999, pack([Entry(APPLICATION, b"from nowhere")])))
            c.driver._schedule_turn()
            for member in (a, b):
                await eventually(lambda member=member: member.driver.transport.counters.ejected > 0)  # type: ignore[misc]
                await member.primary_of(2)
            await a.broadcast(b"goes on")
            await eventually(lambda: "violated the protocol" in c.driver.transport.refused_last)
            for member in (a, b, c):
                await member.primary_of(3)  # a second later it may reconnect, and behaves
            assert a.error is b.error is None

    run(story)
