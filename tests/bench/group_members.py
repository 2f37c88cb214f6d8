"""Member processes of ``./dev bench group``: ours and a bare sequencer, controlled by JSON lines.

{"do": "load", "outstanding": 64, "seconds": 2.0}  ->  {"count": ..., "p50_us": ..., ...}
{"do": "paced", "per_s": 5000, "seconds": 2.0}  ->  the same, with waits that count from when an entry was due
{"do": "long", "outstanding": 64, "seconds": 600.0}  ->  {"count": ..., "per_s": ..., "max_us": ...}

All contenders in Python tune the garbage collector as a serving node does.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
import time
from array import array
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any

import msgspec
import uvloop

from cluster import Group, Options
from cluster.runtime.api.group import Full
from cluster.runtime.api.options import RUNTIME_SETTINGS
from cluster.runtime.commands.counter_machine import CounterMachine
from qosweb.server.process.gc_tuning import tune_for_serving
from tests.bench.group_etcd import Etcd
from tests.bench.group_pysyncobj import PySyncObj

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BODY = b"x" * 150
KEY = b"a key for the benchmark alone...."


class Count:
    """The cheapest state machine."""

    def __init__(self) -> None:
        self.count = 0

    def apply(self, _position: int, _origin: object, _body: bytes) -> object:
        self.count += 1
        return self.count

    def apply_all(self, _position: int, _origin: object, bodies: Sequence[bytes]) -> Sequence[object]:
        first = self.count + 1
        self.count += len(bodies)
        return range(first, self.count + 1)

    def view_changed(self, _position: int, _view: object) -> None: ...

    def snapshot(self) -> bytes:
        return b"%d" % self.count

    def restore(self, state: bytes) -> None:
        self.count = int(state)


class Ours:
    def __init__(self, group: Group) -> None:
        self.group = group

    @classmethod
    async def begin(cls, role: dict[str, Any]) -> Ours:
        data = Path(role["data"]) if role.get("data") else None
        settings = msgspec.structs.replace(RUNTIME_SETTINGS, **role.get("settings", {}))
        options = Options(
            name=role["name"], key=KEY, listen=(role["listen"],), contacts=tuple(role["join"]), data=data,
            settings=settings,
        )  # fmt: skip
        machine = CounterMachine() if role.get("tally") else Count()
        return cls(await (Group.join if role["join"] else Group.found)(options, machine))

    @property
    def address(self) -> str:
        return self.group.addresses[0]

    @property
    def suspicions(self) -> int:
        return self.group.driver.watch.suspicions

    async def whole(self, count: int) -> None:
        await self.group.primary_of(count)

    def post(self, body: bytes, done: Callable[..., None]) -> None:
        self.group.broadcast_nowait(body, done)


# ---- the floor


LENGTH = Struct(">I")


class Peer(asyncio.Protocol):
    """Connection with length-prefixed frames."""

    def __init__(self, receive: Callable[[Peer, bytes], None], made: Callable[[Peer], None]) -> None:
        self._receive, self._made, self._held = receive, made, b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._made(self)

    def data_received(self, data: bytes) -> None:
        data = self._held + data if self._held else data
        at, end = 0, len(data)
        while end - at >= 4:
            (length,) = LENGTH.unpack_from(data, at)
            if end - at - 4 < length:
                break
            self._receive(self, data[at + 4 : at + 4 + length])
            at += 4 + length
        self._held = data[at:]

    def send(self, data: bytes) -> None:
        self.transport.write(LENGTH.pack(len(data)) + data)


class Floor:
    """A sequencer that waits for all acknowledgements: no membership, no recovery, no guarantee."""

    suspicions = 0

    def __init__(self) -> None:
        self.address = ""
        self.peers: list[Peer] = []
        self.acked: dict[Peer, int] = {}
        self.waiting: list[tuple[bytes, Callable[[], None]]] = []
        self.under_way: dict[int, list[Callable[[], None]]] = {}
        self.batch = 0
        self.done = 0
        self._due = False
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(tuple[int, list[bytes]]).decode
        self._changed = asyncio.Event()
        self.delivered = 0

    @classmethod
    async def begin(cls, role: dict[str, Any]) -> Floor:
        floor, loop = cls(), asyncio.get_running_loop()
        if role["join"]:
            host, port = role["join"][0].split(":")
            await loop.create_connection(lambda: Peer(floor.follow, floor.made), host, int(port))
        else:
            server = await loop.create_server(lambda: Peer(floor.ack, floor.made), "127.0.0.1", 0)
            floor.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return floor

    def made(self, peer: Peer) -> None:
        self.peers.append(peer)
        self.acked[peer] = 0
        self._changed.set()
        self._changed = asyncio.Event()

    async def whole(self, count: int) -> None:
        while self.address and len(self.peers) < count - 1:
            await self._changed.wait()

    def follow(self, peer: Peer, data: bytes) -> None:
        number, bodies = self._decode(data)
        for _ in bodies:
            self.delivered += 1
        peer.send(LENGTH.pack(number))

    def ack(self, peer: Peer, data: bytes) -> None:
        (self.acked[peer],) = LENGTH.unpack(data)
        safe = min(self.acked.values())
        while self.done < safe:
            self.done += 1
            for done in self.under_way.pop(self.done):
                self.delivered += 1
                done()
        self._soon()

    def post(self, body: bytes, done: Callable[[], None]) -> None:
        self.waiting.append((body, done))
        self._soon()

    def _soon(self) -> None:
        if not self._due and self.waiting:
            self._due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._due = False
        if self.waiting and len(self.under_way) < 2:
            waiting, self.waiting = self.waiting, []
            self.batch += 1
            self.under_way[self.batch] = [done for _, done in waiting]
            data = self._encode((self.batch, [body for body, _ in waiting]))
            for peer in self.peers:
                peer.send(data)


# ---- the load


Contender = Ours | Floor | Etcd | PySyncObj
KINDS: dict[str, type[Contender]] = {"ours": Ours, "floor": Floor, "etcd": Etcd, "pysyncobj": PySyncObj}
PACE_S = 0.001  # between two bursts of a paced load


async def load(to: Contender, order: dict[str, Any]) -> dict[str, float]:
    seconds, outstanding = order["seconds"], order["outstanding"]
    latencies: list[float] = []
    stop = time.perf_counter() + seconds
    began, cpu = time.perf_counter(), _cpu()
    await _post_all(to, stop, outstanding, latencies.append)
    return _figures(latencies, time.perf_counter() - began, _cpu() - cpu)


class Longest:
    """The longest of many waits, without storing all of them."""

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0.0

    def add(self, wait: float) -> None:
        self.count += 1
        if wait > self.longest:
            self.longest = wait


async def long(to: Contender, order: dict[str, Any]) -> dict[str, float]:
    waits, began = Longest(), time.perf_counter()
    await _post_all(to, began + order["seconds"], order["outstanding"], waits.add)
    lasted = time.perf_counter() - began
    return {"count": waits.count, "per_s": waits.count / lasted, "max_us": 1e6 * waits.longest}


async def paced(to: Contender, order: dict[str, Any]) -> dict[str, float]:
    """Submits entries at a fixed rate; a wait counts from when its entry was due."""
    clock, per_s, seconds = time.perf_counter, order["per_s"], order["seconds"]
    total, posted, ended = int(per_s * seconds), 0, 0
    waits = array("d", bytes(8 * total))
    began, cpu = clock(), _cpu()
    finished = asyncio.Event()

    def post(due: float) -> None:
        def done(_end: object = None) -> None:
            nonlocal ended
            waits[ended] = clock() - due
            ended += 1
            if ended == total:
                finished.set()

        to.post(BODY, done)

    while posted < total:
        upto = min(total, int((clock() - began) * per_s))
        while posted < upto:
            try:
                post(began + posted / per_s)
            except Full:
                break  # it stays due
            posted += 1
        await asyncio.sleep(PACE_S)
    await finished.wait()
    return _figures(waits.tolist(), clock() - began, _cpu() - cpu)


def _figures(latencies: list[float], lasted: float, cpu: float) -> dict[str, float]:
    latencies.sort()
    count = len(latencies)
    return {
        "count": count,
        "per_s": count / lasted,
        "p50_us": 1e6 * latencies[count // 2],
        "p99_us": 1e6 * latencies[count * 99 // 100],
        "max_us": 1e6 * latencies[-1],
        "cpu_us": 1e6 * cpu / count,
    }


async def _post_all(to: Contender, stop: float, outstanding: int, add: Callable[[float], None]) -> None:
    clock, post = time.perf_counter, to.post
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[None] = loop.create_future()
    left = outstanding

    def begin() -> None:
        began = clock()

        def done(_end: object = None) -> None:
            nonlocal left
            now = clock()
            add(now - began)
            if now < stop:
                begin()
            else:
                left -= 1
                if not left:
                    loop.call_soon_threadsafe(finished.set_result, None)  # some contenders have a thread of their own

        post(BODY, done)

    for _ in range(outstanding):
        begin()
    await finished


LOADS = {"load": load, "paced": paced, "long": long}


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def main() -> None:
    role = json.loads(sys.argv[1])
    contender = await KINDS[role["kind"]].begin(role)
    _tell({"address": contender.address})
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        order = json.loads(line)
        if order["do"] == "whole":
            await contender.whole(order["count"])
            tune_for_serving()
            _tell({"whole": True, "leads": getattr(contender, "leads", False)})
        elif order["do"] in LOADS:
            found = await LOADS[order["do"]](contender, order)
            gc.collect()  # or it comes in the middle of the next one: callbacks that name each other hold all waits
            _tell(found)
        elif order["do"] == "cpu":
            _tell({"cpu_s": _cpu(), "suspicions": contender.suspicions})


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
