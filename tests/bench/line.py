"""``./dev bench line``: shares on an outgoing line whose rate nobody has set, in network namespaces.

The node's interface is shaped by the kernel's token bucket filter (tbf). Two classes with the shares 65:35 always want
more (wrk), with connections for and against the shares. Figures: the share of the first class, by the node's log; the
part of the line that both used, with heads of responses and packets; processor time of the node over the time of the
run. Scenarios (`--scenario`):

    shares  from the third second on, for each rate, size and number of connections
    halved  the rate is halved and doubled again while the load goes on; figures from 4 s after each change on
    slow    20 clients read 50 KB/s each: first alone, where the line is not full, then beside the load
    free    nothing limits the line: bytes per second over those of a node that does not look for its line, alternating
    own     nothing limits the node's line, but each client has a slow line of its own: the same comparison
    many    1,000 connections: processor time of the law alone, over the time of its ticks
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from qosweb.engine.laws.line_rate import TICK_S
from qosweb.server.pacing.line_watch import LineWatch
from qosweb.server.pacing.send_pacer import SendPacer
from tests.bench import wrk
from tests.bench.http import cpu_s
from tests.support.nodes import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SPEC = "set lifetime = 60s\n</a>.server_resource = 65%\n</b>.server_resource = 35%\n"
PORT = 8080
WARM_S = 3.0
AGAIN_S = 4.0
FRAMING = 1448 / 1514  # bytes of a response in those of its full packets
HEAD = 330  # bytes of a response before its body, about
SLOW_CLIENTS, SLOW_BPS, SLOW_SIZE = 20, 50_000, 8 << 20
OWN_CLIENTS, OWN_MBIT = 4, 20
MANY, MANY_TICKS = 1000, 200

SLOW_READERS = """
import asyncio, socket, sys, time
host, port, path, count, rate, seconds = sys.argv[1], *sys.argv[2:3], sys.argv[3], *map(float, sys.argv[4:])
async def read():
    one, loop, got, began = socket.socket(), asyncio.get_running_loop(), 0, time.monotonic()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    one.setblocking(False)
    await loop.sock_connect(one, (host, int(port)))
    await loop.sock_sendall(one, f"GET {path} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
    while (passed := time.monotonic() - began) < seconds:
        got += len(await loop.sock_recv(one, int(rate / 10)))
        await asyncio.sleep(max(0, got / rate - passed))
    return got / passed
async def main():
    print(*sorted(await asyncio.gather(*(read() for _ in range(int(count))))))
asyncio.run(main())
"""


def main(arguments: list[str]) -> int:
    scenarios = {"shares": shares, "halved": halved, "slow": slow, "free": free, "own": own, "many": many}
    parser = argparse.ArgumentParser(
        prog="./dev bench line", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenario", choices=scenarios, default="shares")
    parser.add_argument("--mbit", default="60", help="rates of the line (60)")
    parser.add_argument("--connections", default="6/26,26/6,16/16", help="of the two classes (6/26,26/6,16/16)")
    parser.add_argument("--size", default="65536", help="sizes of the page in bytes (65536)")
    parser.add_argument("--seconds", type=int, default=12, help="of each run (12)")
    parser.add_argument("--runs", type=int, default=1, help="repetitions (1)")
    parser.add_argument("--without", action="store_true", help="shares: also without looking for the line")
    chosen = parser.parse_args(arguments)
    wrk.require()
    try:
        for _ in range(chosen.runs):
            scenarios[chosen.scenario](chosen)
    except NamespacesUnavailable as error:
        print(f"bench: needs network namespaces (root and iproute2): {error}", file=sys.stderr)
        return 1
    return 0


# ---- scenarios


def shares(chosen: argparse.Namespace) -> None:
    with NamespaceNetwork(["n"]) as network:
        for mbit, size, connections in cases(chosen):
            for finds in (True, False) if chosen.without else (True,):
                shape(network, mbit)
                with LineNode(network, size, finds=finds) as node:
                    node.load(connections, chosen.seconds)
                a, b, used = node.figures(mbit, WARM_S, chosen.seconds)
                say(mbit, size, connections, "found" if finds else "plain", a, b, used, f"processor {node.busy:.3f}")


def halved(chosen: argparse.Namespace) -> None:
    part_s = 7
    with NamespaceNetwork(["n"]) as network:
        for mbit, size, connections in cases(chosen):
            shape(network, mbit)
            with LineNode(network, size) as node:
                loads = node.start_load(connections, 3 * part_s)
                for number, rate in ((1, mbit / 2), (2, mbit)):
                    time.sleep(max(0.0, node.began + number * part_s - time.time()))
                    shape(network, rate)
                wait(loads)
            for number, rate, text in ((0, mbit, "full"), (1, mbit / 2, "half"), (2, mbit, "full again")):
                a, b, used = node.figures(
                    rate, number * part_s + (AGAIN_S if number else WARM_S), (number + 1) * part_s
                )
                say(mbit, size, connections, text, a, b, used)


def slow(chosen: argparse.Namespace) -> None:
    alone_s, beside_s = 6, chosen.seconds
    with NamespaceNetwork(["n"]) as network:
        for mbit, size, connections in cases(chosen):
            shape(network, mbit)
            with LineNode(network, size) as node:
                words = [node.address, PORT, "/a/long", SLOW_CLIENTS, SLOW_BPS, alone_s + beside_s]
                readers = subprocess.Popen(
                    [*network.at(), sys.executable, "-c", SLOW_READERS, *map(str, words)],
                    stdout=subprocess.PIPE,
                    text=True,
                )
                states = node.states(alone_s)
                node.load(connections, beside_s)
                rates = [float(text) for text in readers.communicate(timeout=60)[0].split()]
            readers_bps = sum(rates)
            a, b, _ = node.figures(mbit, WARM_S, beside_s)
            a += int(readers_bps * (beside_s - WARM_S))
            used = (a + b) * (1 + HEAD / size) / (beside_s - WARM_S) / FRAMING / (mbit * 125_000)
            text = (
                f"alone {'/'.join(sorted(states))}; readers {min(rates):.0f} to {max(rates):.0f} of {SLOW_BPS} bytes/s"
            )
            say(mbit, size, connections, "slow", a, b, used, text)


def free(chosen: argparse.Namespace) -> None:
    with NamespaceNetwork(["n"]) as network:
        for _, size, connections in cases(chosen):
            compare(network, size, chosen.seconds, f"{connections} connections", [("a", connections, "")])


def own(chosen: argparse.Namespace) -> None:
    names = [f"c{number}" for number in range(OWN_CLIENTS)]
    with NamespaceNetwork(["n", *names]) as network:
        for name in names[:-1]:  # the last client has a fast line
            shape(network, OWN_MBIT, at="", device=f"to-{name}")
        shape(network, 400, at="", device=f"to-{names[-1]}")
        for size in map(int, chosen.size.split(",")):
            compare(network, size, chosen.seconds, "clients with own lines", [("a", "4/4", name) for name in names])


def compare(
    network: NamespaceNetwork, size: int, seconds: int, text: str, loads: Sequence[tuple[str, str, str]]
) -> None:
    """Bytes per second and processor time per byte, over those of a node that does not look for its line."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    costs: dict[bool, list[float]] = {True: [], False: []}
    states: set[str] = set()
    with LineNode(network, size) as found, LineNode(network, size, finds=False, port=PORT + 1) as plain:
        for _ in range(3):
            for node, finds in ((found, True), (plain, False)):
                before = cpu_s(node.process.pid)
                running = list(
                    itertools.chain(*(node.start_load(connections, seconds, at) for _, connections, at in loads))
                )
                got = sum(wait(running))
                rates[finds].append(got / seconds)
                costs[finds].append((cpu_s(node.process.pid) - before) / max(1, got))
                if finds:
                    states |= node.states(0.1)  # not meanwhile: it takes processor time
    ratio, cost = (statistics.median(values[True]) / statistics.median(values[False]) for values in (rates, costs))
    print(
        f"{size:>8} bytes, {text}: {ratio:.3f} of {statistics.median(rates[False]) / 1e6:.1f} MB/s without the law "
        f"(runs {', '.join(f'{a / b:.2f}' for a, b in zip(rates[True], rates[False], strict=True))}), "
        f"processor time per byte {cost:.3f}, states {'/'.join(sorted(states))}",
        flush=True,
    )


def many(chosen: argparse.Namespace) -> None:  # noqa: ARG001
    asyncio.run(_many())


async def _many() -> None:
    """All connections have bytes under way, on loopback; the law is ticked by hand."""
    loop = asyncio.get_running_loop()
    transports: list[asyncio.Transport] = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transports.append(transport)

    server = await loop.create_server(Accepted, "127.0.0.1", 0, backlog=MANY)
    clients = []
    for _ in range(MANY):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await loop.sock_connect(client, server.sockets[0].getsockname())
        clients.append(client)
    while len(transports) < MANY:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    for transport in transports:
        transport.write(bytes(1 << 18))
    pacer = SendPacer(loop, float("inf"), lambda accounts: [0] * len(accounts))
    watch = LineWatch(loop, pacer, lambda: transports, float("inf"), lambda _rate: None)
    for _ in range(MANY // 8):  # until all connections are watched
        watch.look()
    before = time.thread_time()
    for _ in range(MANY_TICKS):
        watch.look()
    tick_s = (time.thread_time() - before) / MANY_TICKS
    watch.close()
    print(f"{MANY} connections: {tick_s * 1e6:.0f} us per tick, {100 * tick_s / TICK_S:.2f} % of a core", flush=True)
    for client in clients:
        client.close()
    server.close()


# ---- the node and its load


class LineNode:
    """A node in its namespace, and wrk as its load."""

    def __init__(self, network: NamespaceNetwork, size: int, *, finds: bool = True, port: int = PORT) -> None:
        self.address, self.port, self.busy, self.began = network.address("n"), port, 0.0, 0.0
        self._network = network
        self._size = size
        self._folder = tempfile.TemporaryDirectory()
        scratch = Path(self._folder.name)
        for name in "ab":
            (scratch / "site" / name).mkdir(parents=True)
            (scratch / "site" / name / "page").write_bytes(os.urandom(size))
        (scratch / "site" / "a" / "long").write_bytes(bytes(SLOW_SIZE))
        (scratch / "site.webqos").write_text(SPEC)
        self._log = scratch / "access.log"
        self._lines: list[dict[str, Any]] | None = None
        self.process = subprocess.Popen(
            [
                *network.at("n"), sys.executable, "-m", "qosweb", "serve", "--root", str(scratch / "site"), "--listen",
                f"{self.address}:{port}", "--admin", f"127.0.0.1:{port + 100}", "--spec", str(scratch / "site.webqos"),
                "--access-log", str(self._log), "--find-line", "yes" if finds else "no", "--client-share", "100%",
            ],
            env=environment(),
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def __enter__(self) -> LineNode:
        probe = f"import socket; socket.create_connection(('{self.address}', {self.port}), 1).close()"
        for _ in range(200):
            done = subprocess.run([*self._network.at(), sys.executable, "-c", probe], capture_output=True, check=False)
            if not done.returncode:
                return self
            time.sleep(0.1)
        raise SystemExit("bench: the node does not listen")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()
        self._lines = [json.loads(text) for text in self._log.read_text().splitlines()]
        self._folder.cleanup()

    def start_load(self, connections: str, seconds: int, at: str = "") -> list[subprocess.Popen[str]]:
        self.began = time.time()
        return [
            subprocess.Popen(
                [
                    *self._network.at(at), "wrk", "-t1", f"-c{count}", f"-d{seconds}s",
                    f"http://{self.address}:{self.port}/{name}/page",
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            for name, count in zip("ab", connections.split("/"), strict=True)
        ]  # fmt: skip

    def load(self, connections: str, seconds: int) -> None:
        before = cpu_s(self.process.pid)
        wait(self.start_load(connections, seconds))
        self.busy = (cpu_s(self.process.pid) - before) / (time.time() - self.began)

    def states(self, seconds: float) -> set[str]:
        """The states of the law in this time, as /status shows them."""
        fetch = (
            f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{self.port + 100}/status').read().decode())"
        )
        until, found = time.time() + seconds, set()
        while time.time() < until:
            said = subprocess.run(
                [*self._network.at("n"), sys.executable, "-c", fetch], capture_output=True, text=True, check=True
            )
            found.add(json.loads(said.stdout)["capacity"]["line"]["state"])
            time.sleep(0.4)
        return found

    def figures(self, mbit: float, from_s: float, to_s: float) -> tuple[int, int, float]:
        """Bytes of both classes between two times after the begin of the load, and the part of the line in use."""
        a, b = (self._sent(f"/{name}", self.began + from_s, self.began + to_s) for name in "ab")
        bps = (a + b) * (1 + HEAD / self._size) / (to_s - from_s) / FRAMING
        return a, b, bps / (mbit * 125_000)

    def _sent(self, name: str, from_s: float, to_s: float) -> int:
        """Bytes of a class between two times, each response counted evenly over its service."""
        total = 0.0
        assert self._lines is not None, "the node has not ended"
        for line in self._lines:
            if line.get("class") != name or line["path"].endswith("/long"):
                continue
            begin = line["ts"] + line["queue_ms"] / 1e3
            end = begin + max(line["service_ms"], 0.001) / 1e3
            total += line["bytes"] * max(0.0, min(end, to_s) - max(begin, from_s)) / (end - begin)
        return int(total)


def wait(loads: Sequence[subprocess.Popen[str]]) -> list[float]:
    """Wait for the loads to end; the bytes that each received."""
    return [wrk.bytes_received(one.communicate()[0]) for one in loads]


def shape(network: NamespaceNetwork, mbit: float, *, at: str = "n", device: str = "eth0") -> None:
    """Set the rate of a line, with a buffer of 80 ms."""
    limit = max(30_000, int(mbit * 125_000 * 0.08))
    words = ["tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{mbit}mbit"]
    burst = max(16, int(mbit / 8))
    done = subprocess.run(
        [*network.at(at), *words, "burst", f"{burst}kb", "limit", str(limit)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise NamespacesUnavailable(f"tc: {done.stderr.strip()}")


def cases(chosen: argparse.Namespace) -> Iterator[tuple[int, int, str]]:
    yield from itertools.product(
        map(int, chosen.mbit.split(",")), map(int, chosen.size.split(",")), chosen.connections.split(",")
    )


def say(mbit: float, size: int, connections: str, what: str, a: int, b: int, used: float, more: str = "") -> None:
    print(
        f"{mbit:>4} Mbit/s, {size:>8} bytes, {connections:>6} connections, {what}: share {a / max(1, a + b):.3f} "
        f"(0.650), line {used:.3f}{', ' * bool(more)}{more}",
        flush=True,
    )
