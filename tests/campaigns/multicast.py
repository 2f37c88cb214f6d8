"""Faults during the multicast of a release: how long HTTP requests take at the nodes that remain.

For each fault a new cluster of three nodes in network namespaces; n1 coordinates, n3 publishes a large file. In the
middle of the transfer a node is killed or stopped, or a partition begins. Every request to a node that was not hit must
be answered within a second, and after the fault all of these nodes have the release, or none has it. Without a fault n3
sends the file once, not once to each node.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadgen.experiments.nodes import NodePlace, NodeProcesses
from tests.support.cut_network import CutNetwork
from tests.support.nodes import COMMAND, environment
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("n1", "n2", "n3")
GROUP = "239.255.71.10:7200%eth0"
HTTP_S = 1.0
TRANSFER_S = 120.0
COPIES_MAX = 1.5  # that the publishing node sends, without a fault
WATCH_S = 4.0  # after the fault, at least: the group notices it within this time

# Requests to each address, one after the other, until the standard input ends. Prints a line when each has answered
# once, and at the end the longest time and the number of requests and of failures.
_VISITOR = """
import http.client, json, sys, threading, time
ended, found, begun = threading.Event(), {}, threading.Barrier(len(sys.argv) - 1)
def visit(address):
    longest = count = failed = 0
    while not ended.is_set():
        began = time.monotonic()
        try:
            connection = http.client.HTTPConnection(address, timeout=10)
            connection.request("GET", "/")
            failed += connection.getresponse().read() != b"page"
            connection.close()
        except OSError:
            failed += 1
        longest, count = max(longest, time.monotonic() - began), count + 1
        if count == 1 and not begun.wait():
            print("visiting", flush=True)
        ended.wait(0.01)
    found[address] = (longest, count, failed)
threads = [threading.Thread(target=visit, args=(address,)) for address in sys.argv[1:]]
[thread.start() for thread in threads]
sys.stdin.read()
ended.set()
[thread.join() for thread in threads]
print(json.dumps(found))
"""


class Round:
    """One cluster and one fault."""

    def __init__(self, folder: Path, spaces: CutNetwork, nodes: NodeProcesses) -> None:
        self.spaces = spaces
        self.nodes = nodes
        self.site = folder / "site"
        self.site.mkdir()
        (self.site / "index.html").write_text("page")
        for name in NAMES:
            place = NodePlace(spaces.address(name), tuple(spaces.at(name)), partial(spaces.within, name))
            nodes.begin(name, place, ["--data-dir", str(folder / f"data-{name}"), "--multicast", GROUP])
            if name == NAMES[0]:
                nodes[name].wait()
        nodes.settle()
        wait_for(lambda: all(self.multicast(name)["members"] == list(NAMES) for name in NAMES) or None, "the web", 30)

    def multicast(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = ((self.nodes[name].status() or {}).get("releases") or {}).get("multicast") or {}
        return found or {"members": [], "receiving": 0}

    def served(self, name: str) -> int:
        releases = (self.nodes[name].status() or {}).get("releases") or {}
        return int(releases.get("served") or 0)

    def publish(self, name: str) -> subprocess.Popen[str]:
        admin = self.nodes[name].admin.removeprefix("http://")
        return subprocess.Popen(
            [*self.spaces.at(name), *COMMAND, "publish", str(self.site), "--admin", admin],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(),
        )  # fmt: skip

    def visitors(self, names: tuple[str, ...]) -> subprocess.Popen[str]:
        addresses = [self.nodes[name].url.removeprefix("http://").rstrip("/") for name in names]
        command = [*self.spaces.at(), sys.executable, "-c", _VISITOR, *addresses]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())

    def run(self, hit: str, fault: Callable[[Round], None], megabytes: int) -> tuple[bool, str]:
        """Returns whether all held, and what was measured. `hit`: the node that does not answer afterwards, if any."""
        first = self.publish("n3")
        assert first.wait(60) == 0, first.stdout.read() if first.stdout else ""
        (self.site / "film.bin").write_bytes(random.Random(1).randbytes(megabytes * 1_000_000))
        remaining = tuple(name for name in NAMES if name != hit)
        watched = "n2" if hit != "n2" else "n1"
        with self.visitors(remaining) as visitors:
            assert visitors.stdout is not None
            visitors.stdout.readline()
            before = self.spaces.sent_bytes("n3")
            publishing = self.publish("n3")
            wait_for(lambda: self.multicast(watched)["receiving"] > 1_000_000 or None, "the transfer", 60)
            fault(self)
            enough = time.monotonic() + WATCH_S
            code = publishing.wait(TRANSFER_S)
            copies = (self.spaces.sent_bytes("n3") - before) / (megabytes * 1e6)
            time.sleep(max(0.0, enough - time.monotonic()))
            out, _ = visitors.communicate("", timeout=60)
        self.spaces.heal()
        found = json.loads(out)
        slowest, failed = max(one[0] for one in found.values()), sum(one[2] for one in found.values())
        count = sum(one[1] for one in found.values())
        wanted = 2 if code == 0 else 1
        wait_for(lambda: all(self.served(name) == wanted for name in remaining) or None, "one release at all", 60)
        text = f"longest request {slowest * 1e3:.0f} ms of {count}, {failed} failed; publish exit {code}"
        text += f", n3 sent {copies:.2f} times the file; all remaining nodes serve release {wanted}"
        is_sent_once = copies < COPIES_MAX or fault is not _nothing
        return slowest < HTTP_S and not failed and is_sent_once, text


def _nothing(_round: Round) -> None:
    """No fault."""


def _signal(name: str, number: signal.Signals) -> Callable[[Round], None]:
    return lambda one: one.nodes[name].process.send_signal(number)


FAULTS: dict[str, tuple[str, Callable[[Round], None]]] = {
    "none": ("", _nothing),
    "coordinator killed": ("n1", _signal("n1", signal.SIGKILL)),
    "producer killed": ("n3", _signal("n3", signal.SIGKILL)),
    "consumer killed": ("n2", _signal("n2", signal.SIGKILL)),
    "consumer stopped": ("n2", _signal("n2", signal.SIGSTOP)),
    "consumer cut off": ("", lambda one: one.spaces.part(("n1", "n3"), ("n2",))),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign multicast", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=60, metavar="N", help="size of the file (default: 60)")
    parser.add_argument("--only", nargs="*", choices=sorted(FAULTS), default=list(FAULTS), metavar="FAULT")
    options = parser.parse_args(arguments)
    good = True
    for name in options.only:
        with (
            tempfile.TemporaryDirectory(prefix="multicast-") as scratch,
            CutNetwork(NAMES) as spaces,
            NodeProcesses(Path(scratch), ["--site"], cluster=True) as nodes,
        ):
            try:
                holds, text = Round(Path(scratch), spaces, nodes).run(*FAULTS[name], options.megabytes)
            finally:
                for node in nodes.alive():
                    node.process.send_signal(signal.SIGCONT)
        print(f"{name:<20} {'ok' if holds else 'FAILED':<7} {text}", flush=True)
        good = good and holds
    return 0 if good else 1
