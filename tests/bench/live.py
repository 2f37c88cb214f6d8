"""Age of live figures and time until access facts are known, with real nodes: normal operation, and one node stalled.

Ages are read in `/status` of each node at random moments. For a fact, a client requests a page at one node and then
asks another node until the class of its next page has changed; each sample is the time of the first response that shows
it, so it includes one or two requests. Each sample uses a client of its own (an address of 127.0.0.0/8).
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import tempfile
import time
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import TYPE_CHECKING

from tests.support.clusters import RunningCluster
from tests.support.sites import write_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence

SPEC = """\
set lifetime = 10s
client accessed(</index.html>) within 1h => </page.html>.available = always
</thick.html>.server_resource > 40%
"""
NAMES = "abc"
GOAL_S = 0.2
FACT_S = 5.0  # after this a fact counts as missed


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench live", description=__doc__)
    parser.add_argument("--samples", type=int, default=300, metavar="N", help="samples of each kind (300)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        with RunningCluster(write_site(scratch / "site"), scratch, SPEC, NAMES, "--capacity", "4MB/s") as cluster:
            wait_for(lambda: all(set(cluster.status(at)["live"]) == set(NAMES) for at in NAMES), "figures of all nodes")
            return _measure(cluster, options.samples)


def _measure(cluster: RunningCluster, samples: int) -> int:
    chance = random.Random(1)
    clients = iter(f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}" for number in range(1 << 16, 1 << 20))
    good = _show("age of figures, three nodes", _ages(cluster, NAMES, samples, chance))
    good &= _show("fact known at another node", [_fact_s(cluster, "a", "b", next(clients)) for _ in range(samples)])
    process = cluster.nodes["c"].process
    process.send_signal(SIGSTOP)
    try:
        good &= _show(
            "age of figures of two nodes, from the stall of the third on", _ages(cluster, "ab", samples, chance)
        )
        facts = [_fact_s(cluster, "a", "b", next(clients)) for _ in range(samples)]
        good &= _show("fact known at another node, third stalled", facts)
    finally:
        process.send_signal(SIGCONT)
    return 0 if good else 1


def _ages(cluster: RunningCluster, names: str, samples: int, chance: random.Random) -> list[float]:
    found: list[float] = []
    while len(found) < samples:
        time.sleep(chance.uniform(0.0, 0.1))
        at = chance.choice(names)
        live = json.loads(cluster.nodes[at].admin("/status"))["live"]
        found += [live[name]["age_s"] for name in names]
    return found


def _fact_s(cluster: RunningCluster, at: str, other: str, client: str) -> float:
    """Seconds from the response at one node until a response of the other shows that it knows the access."""
    before = _class_of(cluster, other, client, "/page.html")
    _class_of(cluster, at, client, "/index.html")
    begun = time.monotonic()
    while time.monotonic() < begun + FACT_S:
        if _class_of(cluster, other, client, "/page.html") != before:
            return time.monotonic() - begun
    return FACT_S


def _class_of(cluster: RunningCluster, at: str, client: str, path: str) -> bytes:
    """The class of a response to this client."""
    address = ("127.0.0.1", cluster.nodes[at].port)
    with socket.create_connection(address, 10, source_address=(client, 0)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = bytearray()
        while b"\r\n\r\n" not in answer and (chunk := connection.recv(1 << 16)):
            answer += chunk
    fields = [line for line in bytes(answer).split(b"\r\n") if line.lower().startswith(b"qos-class:")]
    assert fields, bytes(answer[:200])
    return fields[0]


def _show(what: str, seconds: Sequence[float]) -> bool:
    """Print the distribution. Returns whether 99 of 100 values are below the goal."""
    ordered = sorted(seconds)
    marks = {f"p{part:g}": ordered[min(len(ordered) - 1, int(part / 100 * len(ordered)))] for part in (50, 90, 99)}
    shown = "  ".join(f"{name} {1e3 * value:5.0f} ms" for name, value in {**marks, "max": ordered[-1]}.items())
    above = sum(value >= GOAL_S for value in ordered)
    print(f"{what:<62} {len(ordered):>5} samples  {shown}  {above} of them {1e3 * GOAL_S:.0f} ms or more", flush=True)
    return marks["p99"] < GOAL_S
