"""``./dev bench sending``: a node with ``--capacity``, alone with one client, and with slow readers.

One client: wrk asks for one page again and again, in turns from a node with a capacity and from one without. The figure
is the ratio of the bytes that it got to what is possible: the capacity, or less if the other node sent less.

Slow readers: clients that read a large page of a minor class at 2 KB/s, from one or from many addresses, stay in
service. Two other classes always want more (wrk), and a client asks for a small page of an always-available class. The
figures are how long that client waited, and the share of the first class in what the two got.
"""

from __future__ import annotations

import argparse
import resource
import selectors
import socket
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench import wrk
from tests.support.nodes import RunningNode

PAGES = {"4KB": 4 << 10, "64KB": 64 << 10, "1MB": 1 << 20}
CAPACITIES = {"1MB/s": 1 << 20, "20MB/s": 20 << 20, "400MB/s": 400 << 20}
SPEC = """\
set lifetime = 60min
</now>.available = always
</minor>.server_resource = 10%
</a>.server_resource = 60%
</b>.server_resource = 30%
"""
SLOW_BPS = 2048
SETTLING_S = 3.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench sending", description=__doc__)
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement (3)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts (3)")
    parser.add_argument("--readers", default="4,40,200,2000", help="numbers of slow readers (4,40,200,2000)")
    parser.add_argument("--only", choices=("one", "slow"), help="one part of the benchmark")
    chosen = parser.parse_args(arguments)
    wrk.require()
    if chosen.only != "slow":
        one_client(chosen.rounds, chosen.seconds)
    if chosen.only != "one":
        for count in map(int, chosen.readers.split(",")):
            for addresses in (1, 100):
                slow_readers(count, addresses, max(8, chosen.seconds))
    return 0


def one_client(rounds: int, seconds: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        free, capped = Path(scratch) / "free", Path(scratch) / "capped"
        root = Path(scratch) / "site"
        for folder in (free, capped, root):
            folder.mkdir()
        for name, size in PAGES.items():
            (root / name).write_bytes(bytes(size))
        for capacity, most_bps in CAPACITIES.items():
            with RunningNode(root, free) as one, RunningNode(root, capped, "--capacity", capacity) as other:
                for page, size in PAGES.items():
                    ratios = []
                    for _ in range(rounds):
                        best, got = (
                            size
                            * wrk.load(
                                f"http://127.0.0.1:{node.port}/{page}", connections=1, seconds=seconds
                            ).rate_per_s
                            for node in (one, other)
                        )
                        ratios.append(got / min(best, most_bps))
                    print(f"one client, {capacity:>8}, {page:>4}: {statistics.median(ratios):.3f} of what is possible")


def slow_readers(count: int, addresses: int, seconds: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "site"
        for name in ("now", "minor", "a", "b"):
            (root / name).mkdir(parents=True)
            (root / name / "page").write_bytes(bytes(16 << 10))
        (root / "minor" / "large").write_bytes(bytes(2 << 20))
        spec = Path(scratch) / "site.webqos"
        spec.write_text(SPEC)
        options = ("--capacity", "2MB/s", "--max-connections-per-client", "5000", "--client-share", "100%")
        with RunningNode(root, Path(scratch), "--spec", str(spec), *options) as node:
            readers = SlowReaders(node.port, count, addresses)
            try:
                time.sleep(SETTLING_S)
                with ThreadPoolExecutor(3) as threads:
                    a, b = (
                        threads.submit(
                            wrk.load, f"http://127.0.0.1:{node.port}/{name}/page", connections=16, seconds=seconds
                        )
                        for name in "ab"
                    )
                    waits = probe(node.port, seconds - 1)
                got, rest = a.result().rate_per_s, b.result().rate_per_s
            finally:
                readers.close()
        p99 = sorted(waits)[len(waits) * 99 // 100]
        sys.stdout.write(
            f"{count:>5} slow readers from {min(addresses, count):>3} addresses: always p50 "
            f"{statistics.median(waits) * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms; first class {got / (got + rest):.3f} "
            f"(0.667) of {got + rest:.0f} pages/s; {readers.begun} of them in service\n"
        )
        sys.stdout.flush()


def probe(port: int, seconds: float) -> list[float]:
    """How long each request for a page of the always-available class took."""
    waits = []
    until = time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while time.monotonic() < until:
            began = time.monotonic()
            connection.sendall(b"GET /now/page HTTP/1.1\r\nHost: h\r\n\r\n")
            got = b""
            while len(got) < 16 << 10:
                got += connection.recv(1 << 16)
            waits.append(time.monotonic() - began)
            time.sleep(0.02)
    return waits


class SlowReaders:
    """Clients in a thread that read SLOW_BPS each."""

    def __init__(self, port: int, count: int, addresses: int) -> None:
        self.begun = 0  # got the beginning of their response
        self._is_over = threading.Event()
        self._sockets: list[socket.socket] = []
        for number in range(count):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            one.bind((f"127.0.0.{2 + number % addresses}", 0))
            one.connect(("127.0.0.1", port))
            one.sendall(b"GET /minor/large HTTP/1.1\r\nHost: h\r\n\r\n")
            one.setblocking(False)
            self._sockets.append(one)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        for one in self._sockets:
            one.close()

    def _read(self) -> None:
        begun = set()
        with selectors.DefaultSelector() as selector:
            for one in self._sockets:
                selector.register(one, selectors.EVENT_READ)
            while not self._is_over.wait(1.0):
                for key, _ in selector.select(0):
                    assert isinstance(key.fileobj, socket.socket)
                    begun.add(key.fd)
                    if not key.fileobj.recv(SLOW_BPS):
                        selector.unregister(key.fileobj)
                self.begun = len(begun)
