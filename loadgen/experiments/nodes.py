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
    """Where a node runs: ``before`` is put before its command; ``within`` does something where its loopback is."""

    host: str = "127.0.0.1"
    before: tuple[str, ...] = ()
    within: Callable[[Callable[[], bytes]], bytes] = lambda act: act()


HERE = NodePlace()


class NodeProcess:
    """One of them."""

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
        """Until it serves."""
        match = wait_for(self._announced, f"node {self.name} to serve", _START_S)
        self.url, self.admin = match[1], match[2] or ""
        return self

    def _announced(self) -> re.Match[str] | None:
        if self.process.poll() is not None:
            raise CannotRun(f"node {self.name} ended by itself: {last_line(self._said)}")
        return _SERVING.search(self._said.read_text("utf-8", "replace"))

    def status(self) -> dict[str, Any] | None:
        """None if it does not answer."""
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
        """Of the primary view that it is in; empty if it is in none."""
        status = self.status() or {}
        return sorted(status["members"]) if status.get("primary") else []

    def kill(self) -> None:
        """As a crash: nothing is said to anybody."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        end(self.process)

    def await_end(self) -> None:
        await_end(self.process)


class NodeProcesses:
    """The nodes of an experiment; all of them end with it."""

    def __init__(self, folder: Path, common: Sequence[str], *, cluster: bool) -> None:
        """``common``: options of all of them, such as --root and --spec."""
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
                raise CannotRun(f"no cluster key: {made.stderr.strip()}")

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
        """Started, not waited for. The first founds the cluster, the others join it."""
        options = [*self._common, "--listen", f"{place.host}:0", "--admin", "127.0.0.1:0", *more]
        if self._cluster:
            joins = [word for group in self._groups.values() for word in ("--join", group)] or ["--bootstrap"]
            self._groups[name] = f"{place.host}:{free_port()}"
            options += ["--group", self._groups[name], "--key-file", str(self._key), *joins]
        node = NodeProcess(name, self._folder, options, place)
        self.all.append(node)
        return node

    def add(self, *names: str) -> None:
        """Started, serving, and in one primary view with all that are alive. The founder must be there first."""
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
