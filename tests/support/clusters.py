"""Clusters of node processes, and load on them, judged by their access logs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.support.nodes import COMMAND, RunningNode, environment
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KIB = 1024
Lines = list[dict[str, Any]]  # of an access log
LOADGEN = [sys.executable, "-m", "loadgen.cli"]


def make_site(root: Path, sizes: dict[str, int]) -> Path:
    """Create a page `NAME/page` of the given size for each name."""
    for name, size in sizes.items():
        (root / name).mkdir(parents=True)
        (root / name / "page").write_bytes(b"x" * size)
    return root


class RunningCluster:
    """One node process per name: the first founds the cluster, the others join. All get the same options."""

    def __init__(
        self, root: Path | None, scratch: Path, spec: str, names: str, *options: str, command: Sequence[str] = COMMAND
    ) -> None:
        self.root = root
        self.scratch = scratch
        self.options = options
        self.spec = scratch / "site.webqos"
        self.spec.write_text(spec)
        self.key = scratch / "key"
        self.nodes: dict[str, RunningNode] = {}
        self._stack = ExitStack()
        subprocess.run([sys.executable, "-m", "cluster", "key", str(self.key)], check=True, capture_output=True)
        self.add(names[0], command=command)
        with ThreadPoolExecutor() as pool:  # the others at once
            begun = list(pool.map(lambda name: self._begin(name, command=command), names[1:]))
        for name, node in zip(names[1:], begun, strict=True):
            self.nodes[name] = self._stack.enter_context(node)
        self.together(names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(
        self, name: str, *options: str, before: Sequence[str] = (), command: Sequence[str] = COMMAND
    ) -> RunningNode:
        """Start one more node."""
        node = self.nodes[name] = self._stack.enter_context(self._begin(name, *options, before=before, command=command))
        return node

    def _begin(
        self, name: str, *options: str, before: Sequence[str] = (), command: Sequence[str] = COMMAND
    ) -> RunningNode:
        folder = self.scratch / name
        folder.mkdir(exist_ok=True)
        living = [node for node in self.nodes.values() if node.process.poll() is None]
        how = ["--join", self.group_address(living[0])] if living else ["--bootstrap", "--spec", str(self.spec)]
        return RunningNode(
            self.root, folder, "--name", name, "--key-file", str(self.key), "--group", "127.0.0.1:0", *how,
            *self.options, *options, before=before, command=command,
        )  # fmt: skip

    @staticmethod
    def group_address(node: RunningNode) -> str:
        address: str = json.loads(node.admin("/status"))["group"]["addresses"][0]
        return address

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.nodes[name].admin("/status"))
        return found

    def together(self, names: str, within_s: float = 60) -> None:
        """Wait until exactly these nodes are in one primary view and know each other's capacity."""
        wait_for(lambda: self._are_together(names) or None, f"one primary view of {names}", within_s)

    def _are_together(self, names: str) -> bool:
        for name in names:
            status = self.status(name)
            capacities = [one["capacity_bytes_per_s"] for one in status["nodes"].values()]
            if not status["primary"] or status["members"] != sorted(names) or not all(capacities):
                return False
        return True

    def requests(self, names: str | None = None) -> Lines:
        """The requests in the access logs, in the order of their arrival."""
        found: Lines = []
        for name in names or self.nodes:
            found += [line for line in self._lines(name) if "event" not in line]
        return sorted(found, key=lambda line: float(line["ts"]))

    def _lines(self, name: str) -> Lines:
        """All complete lines: the last may be in the middle of its write."""
        text = self.nodes[name].access_log.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def view_s(self, name: str, members: str, after_s: float) -> float:
        """Wait until this node is in a primary view of exactly these nodes after that time; returns when."""

        def first() -> float | None:
            views = [line for line in self.events(name, "view") if line["primary"] and line["ts"] > after_s]
            times = [float(line["ts"]) for line in views if line["members"] == sorted(members)]
            return times[0] if times else None

        return wait_for(first, f"{name} to be in a primary view of {members}", 60)

    def until(self, names: str, at_s: float) -> None:
        """Wait until these nodes have logged requests that arrived at this time or later."""

        def have() -> bool:
            return all(any(float(line["ts"]) >= at_s for line in self.requests(name)[-1:]) for name in names)

        wait_for(have, f"requests of {names} after that time", 60)

    def events(self, name: str, kind: str) -> Lines:
        return [line for line in self._lines(name) if line.get("event") == kind]


def make_trace(scratch: Path, mix: Sequence[str], *options: str) -> Path:
    """A trace with a mix of pages at a rate for some seconds, made by `loadgen trace`."""
    made = scratch / "trace.jsonl"
    mixes = [word for one in mix for word in ("--mix", one)]
    subprocess.run(
        [*LOADGEN, "trace", *mixes, *options, "--out", str(made)], check=True, capture_output=True, env=environment()
    )
    return made


class Load:
    """`loadgen run` on an existing trace, or on a new one with a mix of pages at a rate for some seconds."""

    def __init__(
        self,
        scratch: Path,
        targets: Iterable[RunningNode],
        mix: Sequence[str] | Path,
        *trace: str,
        spread: str = "even",
    ) -> None:
        self.results = scratch / "results.jsonl"
        made = mix if isinstance(mix, Path) else make_trace(scratch, mix, *trace)
        urls = [word for node in targets for word in ("--target", node.url)]
        self.process = subprocess.Popen(
            [*LOADGEN, "run", str(made), *urls, "--spread", spread, "--quiet", "--out", str(self.results)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
        )

    def wait(self, timeout_s: float = 120) -> Lines:
        """Wait for the end; returns the result of each request."""
        _, error = self.process.communicate(timeout=timeout_s)
        assert self.process.returncode == 0, error
        return self.so_far()

    def so_far(self) -> Lines:
        text = self.results.read_text()
        lines = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
        return [line for line in lines if "outcome" in line]

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        if self.process.stderr is not None and not self.process.stderr.closed:
            self.process.communicate()


def shares(requests: Lines, from_s: float, to_s: float) -> dict[str, float]:
    """Each class's share of the bytes served between these arrival times, counted from the first arrival."""
    began = float(requests[0]["ts"])
    return shares_between(requests, began + from_s, began + to_s)


def shares_between(requests: Lines, from_s: float, to_s: float) -> dict[str, float]:
    """The same between times of the log."""
    served: Counter[str] = Counter()
    for line in requests:
        if line["decision"] == "served" and from_s <= float(line["ts"]) < to_s:
            served[str(line["class"])] += int(line["bytes"])
    total = sum(served.values())
    return {name: count / total for name, count in served.items()}
