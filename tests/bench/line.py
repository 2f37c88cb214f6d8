"""``./dev bench line``: shares on an outgoing line whose rate nobody has set (``--find-line``), in network namespaces.

The node's interface is shaped by the kernel's token bucket filter (tbf). Two classes with the shares 65:35 always want
more (wrk), with connections for and against the shares. Figures: the share of the first class from the third second on,
by the node's access log; the part of the line that both used, with heads of responses and packets; processor time
of the node over the time of the run. In turns with ``--find-line`` and without it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from tests.bench import wrk
from tests.bench.http import cpu_s
from tests.support.nodes import environment

SPEC = "set lifetime = 60s\n</a>.server_resource = 65%\n</b>.server_resource = 35%\n"
PORT = 8080
WARM_S = 3.0
FRAMING = 1448 / 1514  # bytes of a response in those of its full packets
HEAD = 330  # bytes of a response before its body, about


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench line", description=__doc__)
    parser.add_argument("--mbit", default="60", help="rates of the line (60)")
    parser.add_argument("--connections", default="6/26,26/6,16/16", help="of the two classes (6/26,26/6,16/16)")
    parser.add_argument("--size", default="65536", help="sizes of the page in bytes (65536)")
    parser.add_argument("--seconds", type=int, default=12, help="of each run (12)")
    parser.add_argument("--without", action="store_true", help="also without --find-line")
    chosen = parser.parse_args(arguments)
    wrk.require()
    try:
        with NamespaceNetwork(["n"]) as network:
            for mbit in map(int, chosen.mbit.split(",")):
                for size in map(int, chosen.size.split(",")):
                    for connections in chosen.connections.split(","):
                        for finds in (True, False) if chosen.without else (True,):
                            measure(network, mbit, size, connections, chosen.seconds, finds=finds)
    except NamespacesUnavailable as error:
        print(f"bench: needs network namespaces (root and iproute2): {error}", file=sys.stderr)
        return 1
    return 0


def shape(network: NamespaceNetwork, mbit: float) -> None:
    """Set the rate of the line, with a buffer of 80 ms."""
    limit = max(30_000, int(mbit * 125_000 * 0.08))
    words = ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", f"{mbit}mbit"]
    done = subprocess.run(
        [*network.at("n"), *words, "burst", "16kb", "limit", str(limit)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NamespacesUnavailable(f"tc: {done.stderr.strip()}")


def measure(network: NamespaceNetwork, mbit: int, size: int, connections: str, seconds: int, *, finds: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "site"
        for name in "ab":
            (root / name).mkdir(parents=True)
            (root / name / "page").write_bytes(os.urandom(size))
        (Path(scratch) / "site.webqos").write_text(SPEC)
        shape(network, mbit)
        address, log = network.address("n"), Path(scratch) / "access.log"
        command = [
            *network.at("n"), sys.executable, "-m", "qosweb", "serve", "--root", str(root), "--listen",
            f"{address}:{PORT}", "--admin", "127.0.0.1:0", "--spec", f"{scratch}/site.webqos", "--access-log", str(log),
        ]  # fmt: skip
        command += ["--find-line"] if finds else []
        node = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
        try:
            wait_until_open(network, address)
            began, before = time.time(), cpu_s(node.pid)
            loads = [
                subprocess.Popen(
                    [
                        *network.at(),
                        "wrk",
                        "-t1",
                        f"-c{count}",
                        f"-d{seconds}s",
                        f"http://{address}:{PORT}/{name}/page",
                    ],
                    stdout=subprocess.DEVNULL,
                )
                for name, count in zip("ab", connections.split("/"), strict=True)
            ]
            for load in loads:
                load.wait()
            used_s, passed_s = cpu_s(node.pid) - before, time.time() - began
        finally:
            node.terminate()
            node.wait()
        a, b = (sent(log, f"/{name}", began + WARM_S, began + seconds) for name in "ab")
    bps = (a + b) * (1 + HEAD / size) / (seconds - WARM_S) / FRAMING
    print(
        f"{mbit:>4} Mbit/s, {size:>8} bytes, {connections:>6} connections, {'found' if finds else 'plain'}: "
        f"share {a / max(1, a + b):.3f} (0.650), line {bps / (mbit * 125_000):.3f}, processor {used_s / passed_s:.3f}",
        flush=True,
    )


def wait_until_open(network: NamespaceNetwork, address: str) -> None:
    probe = f"import socket; socket.create_connection(('{address}', {PORT}), 1).close()"
    for _ in range(200):
        done = subprocess.run([*network.at(), sys.executable, "-c", probe], capture_output=True, check=False)
        if not done.returncode:
            return
        time.sleep(0.1)
    raise SystemExit("bench: the node does not listen")


def sent(log: Path, name: str, from_s: float, to_s: float) -> int:
    """Bytes of a class between two times, each response counted evenly over its service."""
    total = 0.0
    for text in log.read_text().splitlines():
        line = json.loads(text)
        if line.get("class") != name:
            continue
        begin = line["ts"] + line["queue_ms"] / 1e3
        end = begin + max(line["service_ms"], 0.001) / 1e3
        total += line["bytes"] * max(0.0, min(end, to_s) - max(begin, from_s)) / (end - begin)
    return int(total)
