"""Processes that send and receive files, for tests of `python -m cluster send` and `receive`."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cluster.runtime.net.keys import make_key_file
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from loadgen.experiments.namespaces import NamespaceNetwork

TOP = Path(__file__).resolve().parents[4]
LARGE = 3_000_000
SLOWLY = ("--max-rate", "8")  # Mbit/s: three seconds, so that a fault hits the middle


class Transfers:
    """Processes that send and receive."""

    def __init__(self, folder: Path, network: NamespaceNetwork | None = None, *options: str) -> None:
        self.folder = folder
        self._network = network
        self._options = options
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.contact = ""
        make_key_file(folder / "key")

    def start(self, name: str, *arguments: str) -> None:
        join = ["--join", self.contact] if self.contact else ["--found"]
        before = self._network.at(name) if self._network is not None else []
        listen = ["--listen", self.place(name)] if self._network is not None else []
        with (self.folder / f"{name}.log").open("wb") as output:
            self.processes[name] = subprocess.Popen(
                [*before, sys.executable, "-m", "cluster", *arguments, "--name", name,
                 "--key-file", str(self.folder / "key"), *join, *listen, *self._options],
                cwd=TOP, env={**os.environ, "PYTHONPATH": str(TOP)}, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        wait_for(lambda: self.address(name) or self.processes[name].poll() is not None, "the transfer")
        self.contact = self.contact or self.address(name)

    def place(self, name: str) -> str:
        """Where this member listens: only with a network."""
        assert self._network is not None
        return f"{self._network.address(name)}:0"

    def receiver(self, name: str) -> None:
        """A receiver that has joined: it receives what is sent from now on."""
        self.start(name, "receive", str(self.folder / name))
        wait_for(lambda: f"{name} receives from message" in self.log(name), "the receiver to join")

    def sender(self, name: str, content: bytes, *options: str) -> None:
        file = self.folder / f"{name}.bin"
        file.write_bytes(content)
        self.start(name, "send", str(file), *options)

    def wait_for_the_middle(self, name: str) -> None:
        """A part of the message under way is at this member, and not all of it."""
        wait_for(lambda: self.spooled(name) > 0, "the transfer")
        assert self.spooled(name) < LARGE

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def address(self, name: str) -> str:
        found = re.search(r"listens at (\S+)", self.log(name))
        return found[1] if found else ""

    def order(self, name: str) -> list[str]:
        """The files in the order in which this member received them, with their numbers."""
        return re.findall(r"^message \d+ of \w+: \S+, \d+ bytes", self.log(name), re.MULTILINE)

    def has(self, name: str, file: str, content: bytes) -> bool:
        path = self.folder / name / file
        return path.exists() and path.read_bytes() == content

    def spooled(self, name: str) -> int:
        """Bytes of messages under way at this member."""
        return sum(path.stat().st_size for path in (self.folder / name).glob("bulk-*/*.in"))

    def peak_memory(self, name: str) -> int:
        """The largest resident memory of this process so far, in bytes."""
        status = Path(f"/proc/{self.processes[name].pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return 1024 * int(found[1]) if found else 0  # a process that has just ended has no memory

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        self.processes[name].send_signal(number)

    def end(self, name: str) -> int:
        return self.processes[name].wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()


def content(size: int) -> bytes:
    return random.Random(size).randbytes(size)
