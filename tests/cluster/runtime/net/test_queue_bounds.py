"""Authenticated peers that stop reading or sending are cut off at a bound and counted; the others continue."""

from __future__ import annotations

import asyncio
import secrets

from cluster import Group, Options
from cluster.names import ProcessId
from cluster.runtime.api.options import Bounds
from cluster.runtime.net.handshake import NONCE_LEN, Handshake, PeerIdentity, SeenNonces
from cluster.runtime.net.wire import LENGTH
from tests.cluster.runtime.loops import eventually, run
from tests.cluster.runtime.observe.test_metrics import figures

KEY = b"k" * 32
PIECES, PIECE = 24, b"x" * 1_000_000  # together more than the socket buffers of an unread connection hold


def options(process: str, *contacts: str, bounds: Bounds) -> Options:
    return Options(name=process, key=KEY, listen=("127.0.0.1:0",), contacts=contacts, bounds=bounds)


async def enter(group: Group, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as an authenticated process of this name that does nothing by itself."""
    host, _, port = group.addresses[0].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    handshake = Handshake(
        accepts=False, key=KEY, cluster="cluster", identity=PeerIdentity(ProcessId(name, 1), 1, (), ""),
        nonce=secrets.token_bytes(NONCE_LEN), seen=SeenNonces(), decide=lambda _peer: "",
    )  # fmt: skip
    message = handshake.open()
    while message:
        writer.write(LENGTH.pack(len(message)) + message)
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        message = handshake.receive(await reader.readexactly(length))
    assert handshake.peer is not None
    return reader, writer


def test_a_silent_peer_is_cut_off_and_counted() -> None:
    async def story() -> None:
        async with await Group.found(options("a", bounds=Bounds(silence_s=0.5))) as a:
            await a.primary_of(1)
            counters = a.driver.transport.counters
            reader, writer = await enter(a, "silent")
            await eventually(lambda: len(a.driver.transport.connections) == 1)
            assert counters.closed_silent == 0
            await reader.read()  # read until it is cut off
            await eventually(lambda: counters.closed_silent == 1)
            assert not a.driver.transport.connections
            assert figures(a)["cluster_transport_closed_silent_total"] == 1
            await a.broadcast(b"goes on")
            writer.close()

    run(story)


def test_a_peer_that_does_not_read_is_cut_off_and_the_others_continue() -> None:
    async def story() -> None:
        bounds = Bounds(unsent_bytes_max=100_000, outstanding_bytes_max=4 * PIECES * len(PIECE))
        async with await Group.found(options("a", bounds=bounds)) as a:
            transport = a.driver.transport
            b = await Group.join(options("b", a.addresses[0], bounds=bounds))
            await b.primary_of(2)
            await a.primary_of(2)
            stream = b.driver.transport.connections[a.me]._transport
            assert stream is not None
            stream.pause_reading()
            ends: list[bool] = []
            for _ in range(PIECES):
                a.broadcast_nowait(PIECE, lambda end: ends.append(end.delivered))
            await eventually(lambda: transport.counters.closed_unsent > 0)
            assert figures(a)["cluster_transport_closed_unsent_total"] == transport.counters.closed_unsent
            assert sum(connection.unsent_bytes for connection in transport.connections.values()) < len(PIECE)
            await b.close()
            await a.primary_of(1)
            await eventually(lambda: ends == [True] * PIECES)
            await a.broadcast(b"goes on")

    run(story)
