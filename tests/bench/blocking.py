"""``./dev bench blocking``: how long until a block is in force at all nodes, in both parts of a partitioned cluster.

Five nodes in network namespaces, parted 3 to 2. A block is put at a node of one part; time counts from the request at
its admin port until every node of that part has it in its list, as its admin port tells. The time of asking is in it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from loadgen.experiments.namespaces import NamespaceNetwork
from loadgen.experiments.nodes import NodePlace, NodeProcesses
from tests.support.clusters import make_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("n1", "n2", "n3", "n4", "n5")
PARTS = {"majority": NAMES[:3], "minority": NAMES[3:]}
GOAL_MS = 300.0


class Cluster:
    def __init__(self, nodes: NodeProcesses, spaces: NamespaceNetwork) -> None:
        self.nodes = nodes
        self.spaces = spaces

    def ask(self, name: str, method: str, body: object = None) -> dict[str, object]:
        """`/blocks` of a node."""

        def talk() -> bytes:
            host = self.nodes[name].admin.removeprefix("http://")
            connection = http.client.HTTPConnection(host, timeout=10)
            try:
                connection.request(method, "/blocks", None if body is None else json.dumps(body))
                return connection.getresponse().read()
            finally:
                connection.close()

        found: dict[str, object] = json.loads(self.spaces.within(name, talk))
        return found

    def targets(self, name: str) -> set[str]:
        blocks = self.ask(name, "GET")["blocks"]
        assert isinstance(blocks, list)
        return {one["target"] for one in blocks}

    def delay_ms(self, part: Sequence[str], network: str) -> float:
        """From the request at the first node of `part` until all have the block."""
        began = time.perf_counter()
        self.ask(part[0], "PUT", {"target": network})
        waiting = [*part]
        while waiting:
            waiting = [name for name in waiting if network not in self.targets(name)]
            if time.perf_counter() > began + 30:
                raise TimeoutError(f"{network} is not in force at {waiting}")
        return (time.perf_counter() - began) * 1e3

    def is_shared_by(self, part: Sequence[str]) -> bool:
        return all(
            found["nodes"] == sorted(part) and not found["merging"] for found in (self.ask(n, "GET") for n in part)
        )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench blocking", description=__doc__)
    parser.add_argument("--blocks", type=int, default=100, metavar="N", help="blocks in each part (default: 100)")
    given = parser.parse_args(arguments)
    worst_ms = 0.0
    with tempfile.TemporaryDirectory(prefix="blocking-") as text, NamespaceNetwork(NAMES) as spaces:
        folder = Path(text)
        site = make_site(folder / "site", {"a": 10})
        with NodeProcesses(folder, ["--root", str(site)], cluster=True) as nodes:
            for name in NAMES:
                place = NodePlace(spaces.address(name), tuple(spaces.at(name)), partial(spaces.within, name))
                node = nodes.begin(name, place, ["--data-dir", str(folder / f"data-{name}")])
                if name == NAMES[0]:
                    node.wait()
            nodes.settle()
            cluster = Cluster(nodes, spaces)
            spaces.part(*PARTS.values())
            print(f"{'':<10} {'p50':>7} {'p90':>7} {'p99':>7} {'most':>7}  ms; goal: at most {GOAL_MS:g} ms")
            for title, part in PARTS.items():
                wait_for(lambda: cluster.is_shared_by(part) or None, f"one list at {part}", 60)  # noqa: B023
                times = sorted(
                    cluster.delay_ms(part[at % len(part) :] + part[: at % len(part)], f"10.{part[0][1]}.{at}.0/24")
                    for at in range(given.blocks)
                )
                shown = (times[len(times) // 2], times[len(times) * 9 // 10], times[len(times) * 99 // 100], times[-1])
                print(f"{title:<10} " + " ".join(f"{one:7.1f}" for one in shown), flush=True)
                worst_ms = max(worst_ms, times[-1])
    return 0 if worst_ms <= GOAL_MS else 1
