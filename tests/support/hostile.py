"""Hostile clients, as a process: ``python -m tests.support.hostile PORT COUNT ATTACK=ADDRESS ... ca=FILE``.

Each attack comes from one address and keeps COUNT connections busy until standard input is closed. A connection that
the server ends is opened again. "ready" is printed once every connection has been opened, and at the end a count of
the connections of each attack.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import socket
import ssl
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

DRIP_S = 1.0  # between two bytes of a slow client
PAUSE_S = 0.05  # before a connection is opened again
FLOOD_PAUSE_S = 0.2  # of each connection of a flood, on average: bounded, as attackers and server share a machine
READ_BUFFER = 4096
OPEN_S = 60.0


class Channel(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def drip(channel: Channel, first: bytes) -> None:
    """Send ``first``, then a byte now and then."""
    channel.writer.write(first)
    while not channel.reader.at_eof():
        await asyncio.sleep(DRIP_S)
        channel.writer.write(b"x")
        await channel.writer.drain()


async def slow_head(channel: Channel) -> None:
    await drip(channel, b"GET /page HTTP/1.1\r\nHost: h\r\nX-Slow: ")


async def slow_small_body(channel: Channel) -> None:
    await drip(channel, b"POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nx")


async def slow_large_body(channel: Channel) -> None:
    await drip(channel, b"POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nx")


async def slow_reader(channel: Channel) -> None:
    channel.writer.write(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
    while await channel.reader.read(1):  # noqa: ASYNC110
        await asyncio.sleep(DRIP_S)


async def connection_flood(channel: Channel) -> None:
    channel.writer.write(b"GET /page HTTP/1.1\r\nHost: h\r\n\r\n")
    await asyncio.sleep(2 * FLOOD_PAUSE_S * random.random())
    channel.writer.transport.abort()


NUMBERS = itertools.count()


async def distinct_pages(channel: Channel) -> None:
    while True:
        channel.writer.write(b"GET /no/such/%d HTTP/1.1\r\nHost: h\r\n\r\n" % next(NUMBERS))
        if not await channel.reader.read(65536):
            return
        await asyncio.sleep(2 * FLOOD_PAUSE_S * random.random())


async def silence(channel: Channel) -> None:
    """Against a TLS server: no handshake."""
    await channel.reader.read(1)


ATTACKS: dict[str, Callable[[Channel], Awaitable[None]]] = {
    one.__name__: one
    for one in (slow_head, slow_small_body, slow_large_body, slow_reader, connection_flood, distinct_pages, silence)
}


async def attack(name: str, port: int, address: str, tls: ssl.SSLContext | None, opened: Counter[str]) -> None:
    """One connection of an attack, again and again."""
    if name == "silence":
        tls = None
    while True:
        with contextlib.suppress(OSError, TimeoutError):
            sock = socket.socket()
            sock.setblocking(False)
            if name == "slow_reader":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_BUFFER)
            sock.bind((address, 0))
            async with asyncio.timeout(OPEN_S):
                await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
                found = await asyncio.open_connection(
                    sock=sock, ssl=tls, server_hostname=tls and "localhost", limit=READ_BUFFER
                )
            channel = Channel(*found)
            opened[name] += 1
            try:
                await ATTACKS[name](channel)
            finally:
                channel.writer.transport.abort()
        await asyncio.sleep(PAUSE_S)


async def run(port: int, count: int, attacks: dict[str, str], ca: str) -> None:
    tls = ssl.create_default_context(cafile=ca) if ca else None
    opened: Counter[str] = Counter()
    tasks = [
        asyncio.create_task(attack(name, port, address, tls, opened))
        for name, address in attacks.items()
        for _ in range(count)
    ]
    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.read)
    while any(opened[name] < count for name in attacks) and not ended.done():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    print("ready", flush=True)
    await ended
    print(json.dumps(opened), flush=True)
    for task in tasks:
        task.cancel()


class Attackers:
    """Runs attacks in a process of their own while the context lasts, each from its own address or all from one."""

    def __init__(
        self, port: int, count: int, attacks: Iterable[str], *, ca: Path | None = None, one_address: bool = False
    ) -> None:
        self.opened: dict[str, int] = {}  # connections of each attack, after the end
        words = [f"{name}=127.0.1.{1 if one_address else number}" for number, name in enumerate(attacks, 1)]
        command = [sys.executable, "-m", "tests.support.hostile", str(port), str(count), *words]
        self._process = subprocess.Popen(
            [*command, f"ca={ca or ''}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Attackers:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.opened = json.loads(self._process.communicate("", 60)[0])
        finally:
            self._process.kill()
            self._process.wait(30)


if __name__ == "__main__":
    given = dict(word.split("=", 1) for word in sys.argv[3:])
    authority = given.pop("ca")
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2]), given, authority))
