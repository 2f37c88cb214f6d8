"""A member of the data service for `./dev bench queries`: clients inside it keep a number of queries open.

Lines on standard input: `load N` keeps N queries open; `count` prints how many queries it has executed and how many are
open. The answers are JSON objects, one per line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

import msgspec

from cluster import DataService, Options, ProcessId, View, read_key_file
from cluster.runtime.api.options import RUNTIME_SETTINGS

QUERY_CPU_S = 0.001
# Members with a small share of a processor pause often. Fewer heartbeats and a longer time limit fit that.
SETTINGS = msgspec.structs.replace(RUNTIME_SETTINGS, heartbeat=0.25, suspect_min=3.0, suspect_max=6.0)


class Worker:
    """A state machine whose queries take processor time."""

    def apply(self, position: int, origin: ProcessId, body: bytes) -> object: ...

    def view_changed(self, position: int, view: View) -> None: ...

    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None: ...

    def query(self, body: bytes) -> bytes:
        end = time.thread_time() + QUERY_CPU_S
        while time.thread_time() < end:
            pass
        return body


class Load:
    """Clients that ask one query after the other."""

    def __init__(self, service: DataService) -> None:
        self._service = service
        self._tasks: set[asyncio.Task[None]] = set()
        self._wanted = 0

    @property
    def open(self) -> int:
        return len(self._tasks)

    def set(self, count: int) -> None:
        self._wanted = count
        while len(self._tasks) < count:
            task = asyncio.get_running_loop().create_task(self._client(len(self._tasks)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _client(self, number: int) -> None:
        while number < self._wanted:
            await self._service.query(b"q")


async def run(given: argparse.Namespace) -> None:
    options = Options(
        name=given.name, key=read_key_file(given.key_file), listen=("127.0.0.1:0",), contacts=tuple(given.join),
        settings=SETTINGS,
    )  # fmt: skip
    begin = DataService.join if given.join else DataService.found
    service = await begin(options, Worker(), sharing=given.sharing)
    load = Load(service)
    say(address=service.addresses[0])
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async for line in lines:
        match line.decode().split():
            case ["load", count]:
                load.set(int(count))
            case ["count"]:
                members = len(service.primary.members) if service.primary is not None else 0
                say(executed=service.executed, open=load.open, members=members, cpu_s=time.process_time())
    await service.close()


def say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--key-file", type=Path, required=True)
    parser.add_argument("--join", action="append", default=[])
    parser.add_argument("--sharing", required=True)
    asyncio.run(run(parser.parse_args()))
