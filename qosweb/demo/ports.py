"""Chooses ports for the nodes of the demo: three per node, in a regular pattern if they are free."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass

from qosweb.errors import UsageError

HOST = "127.0.0.1"
FIRST = 8080
STEP = 10  # from one node to the next


@dataclass(frozen=True, slots=True)
class Ports:
    public: int
    admin: int
    group: int


def choose_ports(nodes: int, first: int | None) -> tuple[list[Ports], list[int]]:
    """The ports of each node, and those of the pattern that are in use.

    ``first`` is the port that the user gave; 0 means any free ports. Raises UsageError if its ports are in use.
    """
    start = FIRST if first is None else first
    if start == 0:
        return [Ports(*some) for some in _free_ports(nodes)], []
    if not 1 <= start <= 65535 - STEP * nodes:
        raise UsageError(f"--port {start}: {nodes} nodes need higher ports too; give at most {65535 - STEP * nodes}")
    pattern = [Ports(*(start + STEP * at + more for more in range(3))) for at in range(nodes)]
    taken = [port for one in pattern for port in (one.public, one.admin, one.group) if not _is_free(port)]
    if taken and first is not None:
        listed = ", ".join(map(str, taken))
        raise UsageError(f"--port {start}: in use: {listed}; give another port, or 0 for any free ports")
    if taken:
        return [Ports(*some) for some in _free_ports(nodes)], taken
    return pattern, []


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _free_ports(nodes: int) -> list[tuple[int, int, int]]:
    """Three free ports per node. All are bound at the same time, so that they differ."""
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(3 * nodes):
            probe = stack.enter_context(socket.socket())
            probe.bind((HOST, 0))
            ports.append(int(probe.getsockname()[1]))
    return [(ports[at], ports[at + 1], ports[at + 2]) for at in range(0, 3 * nodes, 3)]
