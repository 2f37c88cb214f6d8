"""Three nodes in namespaces in front of two simulated application servers that they share, under skewed load.

Nobody sets how many requests the servers serve at a time. The clients (`tests/bench/processor_client.c`) keep their
connections busy; each node gets another mix of the two classes. Judged over the whole cluster: shares of slot time from
the access logs, use and queue of the servers from their own records, and how far the requests at a server exceed its
limit by more than one for each node.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import defaultdict
from contextlib import ExitStack
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from loadgen.experiments.namespaces import NamespaceNetwork
from loadgen.experiments.nodes import NodePlace, NodeProcesses
from loadgen.experiments.server_process import ServerProcess
from tests.support.server_records import ServerMeans, ServerRecords

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = ("n1", "n2", "n3")
SERVERS = 2
SHARES = {"a": 60, "b": 40}
SPEC = "set lifetime = 10s\n" + "".join(f"</{name}>.server_resource = {share}%\n" for name, share in SHARES.items())
CLIENTS = {"n1": (20, 40), "n2": (4, 20), "n3": (16, 0)}  # connections of each class
CLIENTS_HOST = "10.78.0.254"
ROUND_S = 0.5  # within which a decision is known and logged at all nodes, also on a loaded machine
ONE_CLIENT = ("--client-share", "100%", "--idle-timeout", "600s", "--header-timeout", "600s")


class Excess(NamedTuple):
    """Requests at a server, compared with its limit and one for each node."""

    most: int  # above the limit
    longest_s: float  # without interruption, above the limit and one for each node


def compile_client(folder: Path) -> Path:
    client = folder / "client"
    source = Path(__file__).parent.parent / "bench" / "processor_client.c"
    subprocess.run(["gcc", "-O2", "-o", str(client), str(source), "-lm"], check=True)
    return client


class SharedServers:
    """Runs everything while the context lasts. Raises NamespacesUnavailable."""

    def __init__(self, folder: Path, client: Path, *, workers: int, time_ms: str, seconds: float) -> None:
        """`seconds`: of load, at most."""
        self._folder = folder
        self._client = client
        self._workers = workers
        self._time_ms = time_ms
        self._seconds = seconds
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.network = stack.enter_context(NamespaceNetwork(NAMES))
            self._servers = [
                stack.enter_context(
                    ServerProcess(
                        self._workers, [self._time_ms], self._folder / f"records{number}", host=CLIENTS_HOST,
                        at=self.network.at(),
                    )
                )
                for number in range(SERVERS)
            ]  # fmt: skip
            (self._folder / "shop.webqos").write_text(SPEC)
            config = self._folder / "qosweb.toml"
            config.write_text("".join(f"[[upstream]]\nurl = '{one.url}'\nscope = 'cluster'\n" for one in self._servers))
            common = ["--config", str(config), "--spec", str(self._folder / "shop.webqos"), *ONE_CLIENT]
            self.nodes = stack.enter_context(NodeProcesses(self._folder, common, cluster=True))
            for name in NAMES:
                place = NodePlace(
                    self.network.address(name), tuple(self.network.at(name)), partial(self.network.within, name)
                )
                node = self.nodes.begin(name, place)
                if name == NAMES[0]:
                    node.wait()
            self.nodes.settle()
            self._load = [self._ask(name) for name in NAMES]
            for one in self._load:
                stack.callback(one.wait)
                stack.callback(one.kill)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _ask(self, name: str) -> subprocess.Popen[bytes]:
        address = self.nodes[name].url.removeprefix("http://")
        classes = [f"/{one}/page:0:{count}" for one, count in zip(SHARES, CLIENTS[name], strict=True) if count]
        words = [str(self._client), address, str(self._seconds), "1", "10000", *classes]
        return subprocess.Popen([*self.network.at(), *words], stdout=subprocess.DEVNULL)

    def part(self, *sides: Iterable[str]) -> float:
        """Partition the nodes; returns when."""
        self.network.part(*map(list, sides))
        return time.time()

    def end(self) -> Judged:
        """End the load, and read what happened."""
        for one in self._load:
            one.kill()
        for node in self.nodes.all:
            node.end()
        for server in self._servers:
            server.end()
        return Judged({server.url.removeprefix("http://"): server.records for server in self._servers}, self.log())

    def log(self) -> list[dict[str, Any]]:
        """The lines of all access logs so far."""
        texts = [node.log.read_text() for node in self.nodes.all]
        return [json.loads(line) for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]


class Judged:
    """What happened, by the logs of the nodes and the records of the servers. Times are in seconds since 1970."""

    def __init__(self, records: dict[str, Path], log: list[dict[str, Any]]) -> None:
        self._records = records
        self._requests = [line for line in log if line.get("work")]
        self._limits: dict[str, list[tuple[float, int]]] = defaultdict(list)  # by server, in the order of time
        for line in sorted(log, key=lambda line: float(line["ts"])):
            if line.get("event") == "resource" and line["kind"] == "server":
                self._limits[line["resource"]].append((line["ts"], line["limit"]))
        self.failed = sum("event" not in line and line["status"] not in (200, 499, 503) for line in log)

    def means(self, from_s: float, to_s: float) -> ServerMeans:
        """Of all servers together."""
        return ServerRecords(self._records.values()).means(from_s, to_s)

    def shares(self, from_s: float, to_s: float) -> dict[str, float]:
        """Of slot time over all nodes, in per cent."""
        held: dict[str, float] = defaultdict(float)
        for line in self._requests:
            begin = line["ts"] + line["queue_ms"] / 1e3
            held[line["class"].strip("/")] += max(0.0, min(begin + line["work"] / 1e3, to_s) - max(begin, from_s))
        return {name: 100 * held[name] / max(1e-9, sum(held.values())) for name in SHARES}

    def excess(self, from_s: float, to_s: float, known_s: float | None = None) -> dict[str, Excess]:
        """By server. The limit is the largest that a node in the primary view has logged since a round before.

        `known_s`: limits known at this time count, too.
        """
        found = {}
        for name, path in self._records.items():
            most, longest_s, above_s = 0, 0.0, None
            for at_s, inside in _inside(path, from_s, to_s):
                above = inside - self._limit(name, at_s, known_s)
                most = max(most, above)
                if above <= len(NAMES):
                    above_s = None
                elif above_s is None:
                    above_s = at_s
                else:
                    longest_s = max(longest_s, at_s - above_s)
            found[name] = Excess(most, longest_s)
        return found

    def _limit(self, name: str, at_s: float, known_s: float | None) -> int:
        limits = self._limits[name]
        recent = [limit for logged_s, limit in limits if at_s - ROUND_S <= logged_s <= at_s + ROUND_S]
        last = [limit for logged_s, limit in limits if logged_s < at_s - ROUND_S][-1:]
        known = [limit for logged_s, limit in limits if known_s is not None and logged_s < known_s][-1:]
        return max([*recent, *last, *known], default=0)


def _inside(path: Path, from_s: float, to_s: float) -> list[tuple[float, int]]:
    """When the number of requests at a server changes, and to what. Steps within 5 ms count as one."""
    rows = [row for row in map(json.loads, path.read_text().splitlines()) if row[0] not in ("workers", "fail")]
    changes = sorted([(row[1], 1) for row in rows] + [(row[3], -1) for row in rows])
    steps = zip((at_s for at_s, _ in changes), accumulate(more for _, more in changes), strict=True)
    return [(at_s, inside) for at_s, inside in steps if from_s <= at_s < to_s]
