"""Clusters of nodes as processes, on loopback."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from cluster.runtime.keys import make_key_file
from tests.support.misbehaving import free_port
from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

TOGETHER_S = 60.0


class RunningCluster:
    """So many nodes with the names c1, c2, ...; all of them have seen each other when it is entered."""

    def __init__(self, root: Path, scratch: Path, *options: str, count: int = 3) -> None:
        self._root = root
        self._scratch = scratch
        self._options = options
        self._count = count
        self._stack = ExitStack()
        self.nodes: list[RunningNode] = []

    def __enter__(self) -> RunningCluster:
        key = self._scratch / "cluster.key"
        make_key_file(key)
        contact = f"127.0.0.1:{free_port()}"
        for number in range(1, self._count + 1):
            folder = self._scratch / f"c{number}"
            folder.mkdir()
            way_in = ["--bootstrap", "--group", contact] if number == 1 else ["--join", contact]
            node = RunningNode(
                self._root, folder, *self._options, *way_in, "--key-file", str(key), "--name", f"c{number}"
            )
            self.nodes.append(self._stack.enter_context(node))
        for node in self.nodes:
            wait_for(lambda node=node: self._sees_all(node), "one cluster", TOGETHER_S)  # type: ignore[misc]
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _sees_all(self, node: RunningNode) -> bool:
        nodes = status(node).get("nodes", {})
        return len(nodes) == self._count and all(one["capacity_bytes_per_s"] for one in nodes.values())


def status(node: RunningNode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.admin("/status"))
    return found
