"""Long streams: WebSockets and event streams pass, and have a pool of their own beside ordinary requests."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack, contextmanager
from signal import Signals
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import WSMsgType, web

from tests.support.misbehaving import OK, MisbehavingServer, Talk
from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from tests.support.raw import RawConnection

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"


async def echo(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=("chat",))
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.TEXT:
            await socket.send_str(message.data.upper())
        elif message.type is WSMsgType.BINARY:
            await socket.send_bytes(message.data)
    return socket


def in_front_of_echo(folder: Path, client: Callable[[RunningNode], Awaitable[None]]) -> None:
    """Run ``client`` against a node in front of a WebSocket server."""

    async def run() -> None:
        application = web.Application()
        application.router.add_get("/chat", echo)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        try:
            node = await asyncio.to_thread(RunningNode, None, folder, "--upstream", f"http://127.0.0.1:{port}")
            with node:
                await client(node)
                assert not any("internal error" in line for line in node.stderr), node.stderr
        finally:
            await runner.cleanup()

    asyncio.run(run())


def test_a_websocket_passes_in_both_directions(tmp_path: Path) -> None:
    async def talk(node: RunningNode) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{node.url}/chat", protocols=("chat",), max_msg_size=0) as socket,
        ):
            assert socket.protocol == "chat"
            for number in range(20):
                await socket.send_str(f"hello {number}")
                assert await socket.receive_str() == f"HELLO {number}"
            large = bytes(range(256)) * (12 << 10)  # more than all buffers
            await socket.send_bytes(large)
            assert await socket.receive_bytes() == large
            assert await asyncio.to_thread(node.metric, "qosweb_streams") == 1
            assert await asyncio.to_thread(node.metric, "qosweb_requests_in_service") == 0
        line = await asyncio.to_thread(wait_for, lambda: next(iter(node.log()), None), "its line in the log")
        assert (line["status"], line["decision"], line["path"]) == (101, "served", "/chat")
        assert line["bytes"] > len(large)
        assert node.metric("qosweb_streams") == 0

    in_front_of_echo(tmp_path, talk)


def test_a_stop_waits_for_websockets_until_its_grace_is_over(tmp_path: Path) -> None:
    async def talk(node: RunningNode) -> None:
        async with aiohttp.ClientSession() as session, session.ws_connect(f"{node.url}/chat") as socket:
            await socket.send_str("a")
            assert await socket.receive_str() == "A"
            node.kill(Signals.SIGTERM)
            await asyncio.to_thread(wait_for, lambda: "draining" in node.readiness() or None, "the node to drain")
            await socket.send_str("b")
            assert await socket.receive_str() == "B"
            await socket.close()
        assert await asyncio.to_thread(node.process.wait, 60) == 0

    in_front_of_echo(tmp_path, talk)


def test_an_upgrade_that_was_not_asked_for_or_is_not_a_websocket_does_not_pass(tmp_path: Path) -> None:
    def script(talk: Talk) -> None:
        talk.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfree")

    with MisbehavingServer(script) as server, RunningNode(None, tmp_path, "--upstream", server.url) as node:
        assert node.get("/x").status == 502
        assert node.get("/x", "Connection: Upgrade", "Upgrade: h2c").status == 502
        assert all(b"pgrade" not in head for head in server.heads)
        with node.connect() as connection:
            connection.send(b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n")
            head = connection._read_until(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101 ")
            assert b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" in head
            assert connection._read_exactly(4) == b"free"


class Events:
    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __call__(self, talk: Talk) -> None:
        if talk.path == "/events":
            talk.send(EVENTS)
            self.go_on.wait(60)
            talk.send(b"0\r\n\r\n")
        elif talk.path == "/long":
            talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlo")
            self.go_on.wait(60)
            talk.send(b"ng")
        else:
            talk.send(OK)


@contextmanager
def in_front_of_events(folder: Path, *options: str) -> Iterator[tuple[RunningNode, Events, ExitStack]]:
    events = Events()
    with (
        MisbehavingServer(events) as server,
        RunningNode(None, folder, "--upstream", server.url, "--client-share", "100%", *options) as node,
        ExitStack() as stack,
    ):
        try:
            yield node, events, stack
        finally:
            events.go_on.set()


def ask(node: RunningNode, path: bytes, stack: ExitStack) -> RawConnection:
    connection = stack.enter_context(node.connect())
    connection.send(b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % path)
    return connection


def test_event_streams_leave_room_for_ordinary_requests(tmp_path: Path) -> None:
    limits = ("--upstream-connections", "1", "--max-streams", "3")
    with in_front_of_events(tmp_path, *limits) as (node, events, stack):
        streams = [ask(node, b"/events", stack) for _ in range(3)]
        for connection in streams:
            connection._read_until(b"data: 1\n\n\r\n")
        assert node.metric("qosweb_streams") == 3
        assert node.metric("qosweb_requests_in_service") == 0
        assert node.get("/x").body == b"ok"
        reply = node.get("/events")
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert b"too many long streams" in reply.body
        events.go_on.set()
        for connection in streams:
            assert connection._read_until(b"0\r\n\r\n") == b"0\r\n\r\n"
            assert connection.get("/x").body == b"ok"
        assert node.metric("qosweb_streams") == 0


def test_a_response_that_takes_long_becomes_a_stream(tmp_path: Path) -> None:
    limits = ("--upstream-connections", "1", "--max-streams", "1", "--stream-after", "1s")
    with in_front_of_events(tmp_path, *limits) as (node, events, stack):
        long = ask(node, b"/long", stack)
        wait_for(lambda: node.metric("qosweb_streams") == 1 or None, "it is a stream")
        assert node.get("/x").body == b"ok"
        events.go_on.set()
        assert long.read_reply().body == b"long"
        assert long.get("/x").body == b"ok"
        assert node.metric("qosweb_streams") == 0


def test_a_stream_without_a_byte_ends(tmp_path: Path) -> None:
    with in_front_of_events(tmp_path, "--stream-idle", "1s") as (node, _, stack):
        assert b"data: 1" in ask(node, b"/events", stack).read_to_end()
        wait_for(lambda: node.metric("qosweb_streams") == 0 or None, "it is over")
