"""Ports for the nodes of the demo: three for each, in a pattern that is easy to remember while they are free."""

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


def choose(nodes: int, first: int | None) -> tuple[list[Ports], list[int]]:
    """For each node its ports, and those that were wanted and taken; if somebody asked for these, that is an error."""
    start = FIRST if first is None else first
    if start == 0:
        return [Ports(*some) for some in _any(nodes)], []
    if not 1 <= start <= 65535 - STEP * nodes:
        raise UsageError(
            f"--port {start}: {nodes} nodes need ports from there on; give one up to {65535 - STEP * nodes}"
        )
    wanted = [Ports(*(start + STEP * at + more for more in range(3))) for at in range(nodes)]
    taken = [port for one in wanted for port in (one.public, one.admin, one.group) if not _is_free(port)]
    if taken and first is not None:
        listed = ", ".join(map(str, taken))
        raise UsageError(f"--port {start}: in use: {listed}; give another, or 0 for any that are free")
    if taken:
        return [Ports(*some) for some in _any(nodes)], taken
    return wanted, []


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _any(nodes: int) -> list[tuple[int, int, int]]:
    """Different ones, because all of them are bound at the same time."""
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(3 * nodes):
            probe = stack.enter_context(socket.socket())
            probe.bind((HOST, 0))
            ports.append(int(probe.getsockname()[1]))
    return [(ports[at], ports[at + 1], ports[at + 2]) for at in range(0, 3 * nodes, 3)]
