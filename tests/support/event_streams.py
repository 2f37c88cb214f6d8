"""Many clients of event streams: ``python -m tests.support.event_streams PORT COUNT``.

Prints "ready" once each has got an event, and one line of JSON whenever a line is read from standard input: the number
of open streams, of their events so far, and of streams that have ended. Ends with standard input.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

REQUEST = b"GET /events HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n"
AT_ONCE = 50  # connections that are being opened


class Streams:
    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._count = count
        self._opening = asyncio.Semaphore(AT_ONCE)
        self._all_open = asyncio.Event()
        self._open = 0
        self._events = 0
        self._ended = 0

    async def run(self) -> None:
        tasks = [asyncio.create_task(self._follow(number)) for number in range(self._count)]
        await self._all_open.wait()
        print("ready", flush=True)
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps({"open": self._open, "events": self._events, "ended": self._ended}), flush=True)
        for task in tasks:
            task.cancel()

    async def _follow(self, number: int) -> None:
        """Each client has one of 200 addresses: no client has more than its share."""
        async with self._opening:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", self._port, local_addr=(f"127.0.2.{number % 200 + 1}", 0)
            )
            writer.write(REQUEST)
            await reader.readuntil(b"data: ")
        self._open += 1
        if self._open == self._count:
            self._all_open.set()
        while data := await reader.read(65536):
            self._events += data.count(b"data: ")
        self._open -= 1
        self._ended += 1


class EventStreams:
    """The clients as a process, while the context lasts."""

    def __init__(self, port: int, count: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.event_streams", str(port), str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> EventStreams:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def counts(self) -> dict[str, Any]:
        """``open`` streams, ``events`` so far, and streams that have ``ended`` by themselves."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate("", 60)
        finally:
            self._process.kill()
            self._process.wait(30)


if __name__ == "__main__":
    asyncio.run(Streams(int(sys.argv[1]), int(sys.argv[2])).run())
