"""Test network of Linux namespaces: one for each node and one for the clients, joined by a bridge.

A partition is silent: the neighbour table of a node gets a MAC address for the other node that no interface has, so
packets leave and are never received. Clients reach every node all the time.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_NOBODY = "02:00:00:00:fe:fe"
_NET = "10.78.0"
_CLIENTS = 254  # last byte of the clients' address
_COMMAND_S = 20.0
_FOLDER = Path("/run/netns")  # where ip creates namespaces
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)  # os.setns comes with Python 3.12


class NamespacesUnavailable(Exception):
    """Namespaces are not allowed, by the kernel or for this user; the text says what failed."""


def _ip(*words: str, told: str = "") -> None:
    try:
        done = subprocess.run(
            ["ip", *words], input=told, capture_output=True, text=True, check=False, timeout=_COMMAND_S
        )
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise NamespacesUnavailable(f"the command ip (iproute2) cannot be used: {error}") from None
    if done.returncode:
        raise NamespacesUnavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")


class NamespaceNetwork:
    """A namespace for each node; ``at(name)`` is the prefix of a command that runs there."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._tag = f"lg{os.getpid() % 100_000}"
        self._made: list[str] = []

    def address(self, name: str) -> str:
        return f"{_NET}.{self._names.index(name) + 1}"

    def at(self, name: str = "") -> list[str]:
        """Command prefix for a node, or for the clients."""
        return ["ip", "netns", "exec", self._space(name or "clients")]

    def within(self, name: str, act: Callable[[], bytes]) -> bytes:
        """Run ``act`` in a thread inside the node's namespace, and return its result or raise its error."""
        found: list[bytes] = []
        wrong: list[OSError] = []

        def enter() -> None:
            try:
                with (_FOLDER / self._space(name)).open("rb") as space:
                    if _LIBC.setns(space.fileno(), _CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), f"namespace of {name}")
                found.append(act())
            except OSError as error:
                wrong.append(error)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if wrong:
            raise wrong[0]
        return found[0]

    def __enter__(self) -> NamespaceNetwork:
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for space in reversed(self._made):
            with suppress(NamespacesUnavailable):
                _ip("netns", "delete", space)
        self._made.clear()

    def part(self, *sides: Sequence[str]) -> None:
        """Partition the nodes: only those of one side hear each other. All routes of a node change in one command."""
        for name in self._names:
            others = [other for other in self._names if other != name]
            self._route(name, {other: any(name in side and other in side for side in sides) for other in others})

    def cut(self, source: str, destination: str) -> None:
        """Drop everything that one node sends to another; the other direction still works."""
        self._route(source, {destination: False})

    def mend(self, source: str, destination: str) -> None:
        self._route(source, {destination: True})

    def heal(self) -> None:
        self.part(self._names)

    def _route(self, source: str, reached: Mapping[str, bool]) -> None:
        macs = {to: self._mac(to) if is_reached else _NOBODY for to, is_reached in reached.items()}
        lines = [f"neigh replace {self.address(to)} lladdr {mac} dev eth0 nud permanent\n" for to, mac in macs.items()]
        _ip("-n", self._space(source), "-batch", "-", told="".join(lines))

    def _space(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def _mac(self, name: str) -> str:
        return f"02:00:00:00:01:{self._names.index(name) + 1:02x}"

    def _build(self) -> None:
        hub = self._space("clients")
        self._add(hub)
        _ip("-n", hub, "link", "set", "lo", "up")
        _ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        _ip("-n", hub, "address", "add", f"{_NET}.{_CLIENTS}/24", "dev", "bridge")
        _ip("-n", hub, "link", "set", "bridge", "up")
        for name in self._names:
            space, port = self._space(name), f"to-{name}"
            self._add(space)
            _ip("-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("-n", hub, "link", "set", port, "master", "bridge", "up")
            _ip("-n", space, "link", "set", "eth0", "address", self._mac(name))
            _ip("-n", space, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")
        self.heal()

    def _add(self, space: str) -> None:
        _ip("netns", "add", space)
        self._made.append(space)
