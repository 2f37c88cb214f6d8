"""Upstream servers that are killed, hang and restart under load, and 1,000 event streams: what clients notice.

Four applications behind one node, clients with keep-alive connections at several addresses. Exit code 1: a request
failed, requests were not redistributed within REDISTRIBUTED_S after a server was killed, a hanging server was not out
soon after its timeout, or event streams disturbed ordinary requests or made the node's memory grow.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING

import psutil

from tests.support.application import Application, upstream_options
from tests.support.event_streams import EventStreams
from tests.support.honest import quantile, waits_s
from tests.support.misbehaving import free_port
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS = 4
CLIENTS = 8
REDISTRIBUTED_S = 2.0
FIRST_BYTE_S = 1.0
SWEEP_S = 1.0  # how late a timeout may be noticed
PAUSE_S = 0.002
GROWTH_MAX = 0.05  # of memory in the second half of the streams' time
RATIO_MAX = 2.0
FLOOR_S = 0.005


class Load:
    """Clients that send GETs until the context ends. ``served`` has the time and the server of each response."""

    def __init__(self, node: RunningNode) -> None:
        self.served: list[tuple[float, str]] = []
        self.failed: list[object] = []
        self._node = node
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        with RawConnection(self._node.port, source=f"127.0.0.{number + 2}") as connection:
            while not self._stop.wait(PAUSE_S):
                try:
                    reply = connection.get("/page")
                except Exception as error:
                    self.failed.append(error)
                    return
                if reply.status == 200:
                    self.served.append((time.monotonic(), reply.headers["x-server"]))
                else:
                    self.failed.append((reply.status, reply.body))

    def rate(self, since: float, until: float, *servers: Application) -> float:
        """Responses per second of these servers."""
        ports = {str(one.port) for one in servers}
        return sum(since <= at < until and server in ports for at, server in self.served) / (until - since)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign upstreams", description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the event streams (default: 60)")
    parser.add_argument("--only", choices=sorted(PARTS), action="append", help="default: all parts")
    options = parser.parse_args(arguments)
    failed = []
    for name in options.only or PARTS:
        with tempfile.TemporaryDirectory(prefix="upstreams-") as folder, ExitStack() as stack:
            servers = [stack.enter_context(Application(free_port())) for _ in range(SERVERS)]
            timeout = ["--upstream-timeout", f"{FIRST_BYTE_S:g}s", "--stream-idle", "60s"]
            node = stack.enter_context(RunningNode(None, Path(folder), *upstream_options(*servers), *timeout))
            wrong = PARTS[name](node, servers, options)
            failed += wrong
            print(f"{name}: {'; '.join(wrong) or 'good'}", flush=True)
    return 1 if failed else 0


def kill(node: RunningNode, servers: list[Application], _: argparse.Namespace) -> list[str]:
    """One of four servers is killed."""
    with Load(node) as load:
        time.sleep(3)
        victim, others = servers[0], servers[1:]
        before = load.rate(time.monotonic() - 2, time.monotonic(), *servers)
        killed_at = time.monotonic()
        victim.process.kill()
        time.sleep(REDISTRIBUTED_S + 2)
        rate = load.rate(killed_at + REDISTRIBUTED_S, killed_at + REDISTRIBUTED_S + 2, *others)
        lost = [at - killed_at for at, server in load.served if server == str(victim.port) and at > killed_at]
    print(f"  {before:.0f} requests/s by four servers, {rate:.0f} by three; last response of the killed one after "
          f"{max(lost, default=0.0):.3f} s; {len(load.failed)} failed")  # fmt: skip
    wrong = [f"{len(load.failed)} requests failed: {load.failed[:3]}"] if load.failed else []
    return wrong + ([f"only {rate:.0f}/s of {before:.0f}/s after {REDISTRIBUTED_S} s"] if rate < before / 2 else [])


def hang(node: RunningNode, servers: list[Application], _: argparse.Namespace) -> list[str]:
    """One of four servers stops to respond."""
    name = f"127.0.0.1:{servers[0].port}"
    with Load(node) as load:
        time.sleep(2)
        servers[0].process.send_signal(Signals.SIGSTOP)
        began = time.monotonic()
        wait_for(lambda: node.metric("qosweb_upstream_up", server=name) == 0, "the server to be out")
        took = time.monotonic() - began
        time.sleep(2)
    servers[0].process.send_signal(Signals.SIGCONT)
    print(f"  out after {took:.2f} s with a timeout of {FIRST_BYTE_S:g} s; {len(load.failed)} failed")
    wrong = [f"{len(load.failed)} requests failed: {load.failed[:3]}"] if load.failed else []
    return wrong + (["it was in for too long"] if took > FIRST_BYTE_S + SWEEP_S else [])


def rolling_restart(node: RunningNode, servers: list[Application], _: argparse.Namespace) -> list[str]:
    """Each server ends its requests and starts again."""
    with ExitStack() as stack, Load(node) as load:
        for server in servers:
            time.sleep(1)
            server.process.send_signal(Signals.SIGTERM)
            server.process.wait(60)
            stack.enter_context(Application(server.port))
            wait_until_it_serves(load, server)
        time.sleep(1)
    print(f"  {len(load.served)} served, {len(load.failed)} failed")
    return [f"{len(load.failed)} requests failed: {load.failed[:3]}"] if load.failed else []


def wait_until_it_serves(load: Load, server: Application) -> None:
    began = time.monotonic()
    wait_for(lambda: load.rate(began, time.monotonic() + 1, server) > 0, "the server to be back")


def event_streams(node: RunningNode, _: list[Application], options: argparse.Namespace) -> list[str]:
    """Many event streams beside ordinary requests."""
    process = psutil.Process(node.process.pid)
    normal = waits_s(node.port, 500)
    with EventStreams(node.port, options.streams) as streams:
        memory, beside = [], []
        until = time.monotonic() + options.seconds
        while time.monotonic() < until:
            beside += waits_s(node.port, 100)
            memory.append(process.memory_info().rss)
            time.sleep(1)
        found = streams.counts()
    beside.sort()
    half = memory[len(memory) // 2]
    growth = max(memory[-1] - half, 0) / half
    ratio = quantile(beside, 0.99) / max(FLOOR_S, quantile(normal, 0.99))
    print(f"  {found['open']} streams, {found['events']} events in {options.seconds:g} s, memory {half >> 20} MB "
          f"and then {memory[-1] >> 20} MB; ordinary p50 {1000 * quantile(normal, 0.5):.1f} and "
          f"{1000 * quantile(beside, 0.5):.1f} ms, p99 {1000 * quantile(normal, 0.99):.1f} and "
          f"{1000 * quantile(beside, 0.99):.1f} ms")  # fmt: skip
    wrong = [f"{found['ended']} streams have ended"] if found["ended"] else []
    wrong += [f"memory grew by {100 * growth:.0f} %"] if growth > GROWTH_MAX else []
    wrong += [f"p99 of ordinary requests is {ratio:.1f} times as large"] if ratio > RATIO_MAX else []
    wait_for(lambda: node.metric("qosweb_streams") == 0, "the end of the streams")
    return wrong


PARTS: dict[str, Callable[[RunningNode, list[Application], argparse.Namespace], list[str]]] = {
    "kill": kill,
    "hang": hang,
    "rolling-restart": rolling_restart,
    "event-streams": event_streams,
}
