"""Simulated application server, as a process of its own: workers that sleep, with one queue in order of arrival.

    python -m loadgen.experiments.simulated_server --workers 8 --time 20 --time b=2|200

Service times are in milliseconds, for all requests or for one class (the first segment of the path): ``20`` constant,
``20~1`` lognormal with that mean and sigma, ``2|200`` one of these at random. A request occupies a worker until its
response of 13 bytes is written. The process prints its port and obeys lines on its standard input:

    workers N      from now on; requests in service go on
    fail P         answers this part of the requests with 500, at once
    outage A B     A seconds after the next request, answers all with 500 for B seconds
    end            writes the records and exits; so does the end of the input

Records are one JSON line for each request that was served (class, and when it arrived, began and ended, in seconds
since 1970) and for each command.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import signal
import sys
import time
from collections import deque
from pathlib import Path

RECORDS_MAX = 1_000_000
HEAD_MAX = 64 << 10
BODY = b"Hello, world!"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
ERROR = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"


class DrawnTime:
    """Draws service times in seconds."""

    def __init__(self, text: str) -> None:
        self.sigma = 0.0
        if "~" in text:
            mean, _, sigma = text.partition("~")
            self.sigma = float(sigma)
            self.choices = [float(mean) / 1000]
        else:
            self.choices = [float(one) / 1000 for one in text.split("|")]
        if min(self.choices) <= 0 or self.sigma < 0:
            raise ValueError(text)

    @property
    def mean_s(self) -> float:
        return sum(self.choices) / len(self.choices)

    def draw(self, chance: random.Random) -> float:
        chosen = chance.choice(self.choices)
        return chosen * math.exp(chance.gauss(-(self.sigma**2) / 2, self.sigma)) if self.sigma else chosen


class Workers:
    """The workers and their queue."""

    def __init__(self, number: int, times: dict[str, DrawnTime], seed: int) -> None:
        self.number = number
        self.failing = 0.0
        self.records: list[tuple[object, ...]] = [("workers", time.time(), number)]
        self._busy = 0
        self.outage: tuple[float, float] | None = None  # that begins with the next request
        self._times = times
        self._chance = random.Random(seed)
        self._queue: deque[tuple[_Connection, str, float]] = deque()

    def arrive(self, connection: _Connection, name: str) -> None:
        if self.outage is not None:
            (after_s, lasts_s), self.outage = self.outage, None
            loop = asyncio.get_running_loop()
            loop.call_later(after_s, self.fail, 1.0)
            loop.call_later(after_s + lasts_s, self.fail, 0.0)
        if self.failing and self._chance.random() < self.failing:
            connection.respond(ERROR)
            return
        if self._busy < self.number:
            self._begin(connection, name, time.time())
        else:
            self._queue.append((connection, name, time.time()))

    def fail(self, part: float) -> None:
        self.records.append(("fail", time.time(), part))
        self.failing = part

    def change(self, number: int) -> None:
        self.records.append(("workers", time.time(), number))
        self.number = number
        self._fill()

    def _begin(self, connection: _Connection, name: str, arrived: float) -> None:
        self._busy += 1
        service_s = self._times.get(name, self._times[""]).draw(self._chance)
        asyncio.get_running_loop().call_later(service_s, self._end, connection, name, arrived, time.time())

    def _end(self, connection: _Connection, name: str, arrived: float, began: float) -> None:
        if len(self.records) < RECORDS_MAX:
            self.records.append((name, arrived, began, time.time()))
        self._busy -= 1
        connection.respond(ANSWER)
        self._fill()

    def _fill(self) -> None:
        while self._queue and self._busy < self.number:
            self._begin(*self._queue.popleft())


class _Connection(asyncio.Protocol):
    """Requests without bodies, one after the other."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._transport: asyncio.Transport | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            self._workers.arrive(self, head.split(b" ", 2)[1].decode("latin-1").strip("/").partition("/")[0])
        if len(self._buffer) > HEAD_MAX and self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None

    def respond(self, answer: bytes) -> None:
        """The client may have left meanwhile."""
        if self._transport is not None:
            self._transport.write(answer)


async def _obey(workers: Workers) -> None:
    """Read commands until the end."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        match line.decode().split():
            case ["workers", number]:
                workers.change(int(number))
            case ["fail", part]:
                workers.fail(float(part))
            case ["outage", after_s, lasts_s]:
                workers.outage = float(after_s), float(lasts_s)
            case ["end"]:
                return
            case _:
                raise SystemExit(f"simulated server: unknown command: {line!r}")


async def _serve(workers: Workers, options: argparse.Namespace) -> None:
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(workers), options.host, options.port, backlog=2048
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await _obey(workers)
    server.close()


def _time(text: str) -> tuple[str, str]:
    name, is_of_class, rest = text.partition("=")
    DrawnTime(rest if is_of_class else text)
    return (name, rest) if is_of_class else ("", text)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--time", type=_time, action="append", default=[])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--records", default="/dev/null")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its input
    options = parser.parse_args(arguments)
    times = {name: DrawnTime(text) for name, text in options.time}
    times.setdefault("", DrawnTime("20"))
    workers = Workers(options.workers, times, options.seed)
    asyncio.run(_serve(workers, options))
    Path(options.records).write_text("".join(json.dumps(record) + "\n" for record in workers.records))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
