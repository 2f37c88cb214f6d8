"""Starts nodes as ``qosweb serve`` processes, alone or as a cluster, and reads their logs and ``/status``."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any, NamedTuple

from loadgen.experiments.processes import CannotRun, await_end, end, environment, last_line, start, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_SERVING = re.compile(r"serving .*? on (https?://[^/]+)/(?:, admin on (http://[^/]+)/)?")
_ANSWER_S = 5.0
_START_S = 60.0
_JOIN_S = 60.0


class NodePlace(NamedTuple):
    """Where a node runs: ``before`` is a prefix of its command; ``within`` runs a function in its network namespace."""

    host: str = "127.0.0.1"
    before: tuple[str, ...] = ()
    within: Callable[[Callable[[], bytes]], bytes] = lambda act: act()


HERE = NodePlace()


class NodeProcess:
    """One node process."""

    def __init__(self, name: str, folder: Path, options: Sequence[str], place: NodePlace) -> None:
        self.name = name
        self.log = folder / f"{name}.access.log"
        self._said = folder / f"{name}.said.txt"
        self._within = place.within
        command = [
            *place.before,
            sys.executable,
            "-m",
            "qosweb",
            "serve",
            "--name",
            name,
            "--access-log",
            str(self.log),
        ]
        self.process = start([*command, *options], self._said)
        self.url, self.admin = "", ""

    def wait(self) -> NodeProcess:
        """Wait until the node serves."""
        match = wait_for(self._announced, f"node {self.name} to serve", _START_S)
        self.url, self.admin = match[1], match[2] or ""
        return self

    def _announced(self) -> re.Match[str] | None:
        if self.process.poll() is not None:
            raise CannotRun(f"node {self.name} exited unexpectedly: {last_line(self._said)}")
        return _SERVING.search(self._said.read_text("utf-8", "replace"))

    def status(self) -> dict[str, Any] | None:
        """The node's ``/status``; None if it does not respond."""
        with contextlib.suppress(OSError, ValueError):
            text = self._fetch(f"{self.admin}/status")
            found: dict[str, Any] = json.loads(text)
            return found
        return None

    def _fetch(self, url: str) -> bytes:
        def fetch() -> bytes:
            with urllib.request.urlopen(url, timeout=_ANSWER_S) as reply:
                text: bytes = reply.read()
                return text

        return self._within(fetch)

    def members(self) -> list[str]:
        """Members of the node's primary view; empty if it is in none."""
        status = self.status() or {}
        return sorted(status["members"]) if status.get("primary") else []

    def kill(self) -> None:
        """Kill the process, like a crash."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        end(self.process)

    def await_end(self) -> None:
        await_end(self.process)


class NodeProcesses:
    """The nodes of an experiment; all of them are stopped at its end."""

    def __init__(self, folder: Path, common: Sequence[str], *, cluster: bool) -> None:
        """``common``: options of all nodes, such as --root and --spec."""
        self._folder = folder
        self._common = list(common)
        self._key = folder / "cluster.key"
        self._cluster = cluster
        self._groups: dict[str, str] = {}
        self.all: list[NodeProcess] = []
        if cluster:
            command = [sys.executable, "-m", "cluster", "key", str(self._key)]
            made = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), timeout=60)
            if made.returncode:
                raise CannotRun(f"cannot create a cluster key: {made.stderr.strip()}")

    def __enter__(self) -> NodeProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.all:
            if node.process.poll() is None:
                node.process.terminate()
        for node in self.all:
            node.end()

    def __getitem__(self, name: str) -> NodeProcess:
        return next(node for node in self.all if node.name == name)

    def alive(self) -> list[NodeProcess]:
        return [node for node in self.all if node.process.poll() is None]

    def begin(self, name: str, place: NodePlace = HERE, more: Sequence[str] = ()) -> NodeProcess:
        """Start a node without waiting. The first node founds the cluster, the others join it."""
        options = [*self._common, "--listen", f"{place.host}:0", "--admin", "127.0.0.1:0", *more]
        if self._cluster:
            joins = [word for group in self._groups.values() for word in ("--join", group)] or ["--bootstrap"]
            self._groups[name] = f"{place.host}:{free_port()}"
            options += ["--group", self._groups[name], "--key-file", str(self._key), *joins]
        node = NodeProcess(name, self._folder, options, place)
        self.all.append(node)
        return node

    def add(self, *names: str) -> None:
        """Start nodes and wait until they serve in one primary view with all running nodes. The founder is first."""
        for name in names:
            node = self.begin(name)
            if len(self.all) == 1:
                node.wait()
        self.settle()

    def settle(self) -> None:
        for node in self.alive():
            node.wait()
        if self._cluster:
            wanted = sorted(node.name for node in self.alive())
            self.until(lambda node: node.members() == wanted, f"a primary view of {', '.join(wanted)}")

    def until(
        self, holds: Callable[[NodeProcess], bool], what: str, among: Sequence[NodeProcess] | None = None
    ) -> None:
        nodes = self.alive() if among is None else among
        wait_for(lambda: all(holds(node) for node in nodes) or None, what, _JOIN_S)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
