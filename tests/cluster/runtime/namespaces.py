"""A network of namespaces, one for each member, joined by a bridge; made by the test, and gone with it.

A direction is cut without a word: the sender's table of neighbours gets an address that nobody has. Packets leave, and
no one takes them; no side is told anything.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress


class NotAllowed(Exception):
    """The kernel, or who runs this, does not allow namespaces."""


NOBODY = "02:00:00:00:ff:ff"


def _ip(*words: str) -> str:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=20)
    except FileNotFoundError:
        raise NotAllowed("there is no 'ip' command (iproute2)") from None
    if done.returncode:
        raise NotAllowed(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Namespaces:
    def __init__(self, names: str) -> None:
        self.names = names
        self._tag = f"q{os.getpid() % 100_000}"
        self.hub = f"{self._tag}-hub"
        self._made: list[str] = []

    def space(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def address(self, name: str) -> str:
        return f"10.77.0.{self.names.index(name) + 1}"

    def _mac(self, name: str) -> str:
        return f"02:00:00:00:00:{self.names.index(name) + 1:02x}"

    def command(self, name: str) -> list[str]:
        """What to put before a command that is to run at this place."""
        return ["ip", "netns", "exec", self.space(name)]

    def __enter__(self) -> Namespaces:
        try:
            self._add(self.hub)
            _ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
            _ip("-n", self.hub, "link", "set", "bridge", "up")
            for name in self.names:
                space, port = self.space(name), f"port-{name}"
                self._add(space)
                _ip("-n", self.hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
                _ip("-n", self.hub, "link", "set", port, "master", "bridge")
                _ip("-n", self.hub, "link", "set", port, "up")
                _ip("-n", space, "link", "set", "eth0", "address", self._mac(name))
                _ip("-n", space, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
                _ip("-n", space, "link", "set", "eth0", "up")
                _ip("-n", space, "link", "set", "lo", "up")
            self.heal()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _add(self, space: str) -> None:
        _ip("netns", "add", space)
        self._made.append(space)

    def __exit__(self, *_error: object) -> None:
        for space in reversed(self._made):
            with suppress(NotAllowed):
                _ip("netns", "delete", space)
        self._made.clear()

    def _point(self, source: str, destination: str, mac: str) -> None:
        _ip("-n", self.space(source), "neigh", "replace", self.address(destination), "lladdr", mac, "dev", "eth0",
            "nud", "permanent")  # fmt: skip

    def cut(self, source: str, destination: str) -> None:
        """Nothing gets from the one to the other any more. The other direction is as it was."""
        self._point(source, destination, NOBODY)

    def mend(self, source: str, destination: str) -> None:
        self._point(source, destination, self._mac(destination))

    def partition(self, *groups: str) -> None:
        """Only who is in one group can talk."""
        for source in self.names:
            for destination in self.names:
                if source != destination:
                    together = any(source in group and destination in group for group in groups)
                    (self.mend if together else self.cut)(source, destination)

    def heal(self) -> None:
        self.partition(self.names)
