"""`python -m cluster send` and `receive` as processes: killed in the middle of transfers."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.runtime.net.keys import make_key_file
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[4]
LARGE = 6_000_000


class Transfers:
    """Processes that send and receive."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.contact = ""
        make_key_file(folder / "key")

    def start(self, name: str, *arguments: str) -> None:
        join = ["--join", self.contact] if self.contact else ["--found"]
        with (self.folder / f"{name}.log").open("wb") as output:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "cluster", *arguments, "--name", name, "--key-file", str(self.folder / "key"),
                 *join],
                cwd=TOP, env={**os.environ, "PYTHONPATH": str(TOP)}, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        wait_for(lambda: self.address(name) or self.processes[name].poll() is not None, "the transfer")
        self.contact = self.contact or self.address(name)

    def receiver(self, name: str) -> None:
        self.start(name, "receive", str(self.folder / name))

    def sender(self, name: str, content: bytes) -> None:
        file = self.folder / f"{name}.bin"
        file.write_bytes(content)
        self.start(name, "send", str(file))

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

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        self.processes[name].send_signal(number)

    def end(self, name: str) -> int:
        return self.processes[name].wait(60)


@pytest.fixture
def transfers(tmp_path: Path) -> Iterator[Transfers]:
    made = Transfers(tmp_path)
    yield made
    for process in made.processes.values():
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def content(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_a_file_reaches_all_and_a_dead_consumer_stops_nobody(transfers: Transfers) -> None:
    for name in "abc":
        transfers.receiver(name)
    transfers.sender("x", content(LARGE))
    wait_for(lambda: transfers.spooled("c") > 0 or transfers.has("c", "x.bin", content(LARGE)), "the transfer")
    transfers.kill("c")
    assert transfers.end("x") == 0, transfers.log("x")
    for name in "ab":
        wait_for(lambda name=name: transfers.has(name, "x.bin", content(LARGE)), "the transfer")  # type: ignore[misc]
    assert "accepted" in transfers.log("x")
    assert transfers.order("a") == transfers.order("b")


def test_a_dead_coordinator_is_replaced(transfers: Transfers) -> None:
    for name in "abcd":
        transfers.receiver(name)
    transfers.sender("x", content(LARGE))
    wait_for(lambda: transfers.spooled("b") > 0 or bool(transfers.order("b")), "the transfer")
    transfers.kill("a")
    assert transfers.end("x") == 0, transfers.log("x")
    for name in "bcd":
        wait_for(lambda name=name: transfers.has(name, "x.bin", content(LARGE)), "the transfer")  # type: ignore[misc]
    assert transfers.order("b") == transfers.order("c") == transfers.order("d")


def test_a_message_of_a_dead_producer_is_delivered_by_all_or_none(transfers: Transfers) -> None:
    for name in "abc":
        transfers.receiver(name)
    transfers.sender("x", content(LARGE))
    wait_for(lambda: transfers.spooled("b") > 0 or bool(transfers.order("b")), "the transfer")
    transfers.kill("x")
    transfers.sender("y", b"afterwards")
    assert transfers.end("y") == 0, transfers.log("y")
    for name in "abc":
        wait_for(lambda name=name: transfers.has(name, "y.bin", b"afterwards"), "the transfer")  # type: ignore[misc]
        transfers.kill(name, signal.SIGTERM)
    assert [transfers.end(name) for name in "abc"] == [0, 0, 0]
    assert transfers.order("a") == transfers.order("b") == transfers.order("c")


def test_a_stopped_consumer_continues_with_the_same_order_or_says_what_it_missed(transfers: Transfers) -> None:
    for name in "abc":
        transfers.receiver(name)
    transfers.sender("x", content(LARGE))
    wait_for(lambda: transfers.spooled("c") > 0 or bool(transfers.order("c")), "the transfer")
    transfers.kill("c", signal.SIGSTOP)
    assert transfers.end("x") == 0, transfers.log("x")
    transfers.sender("y", b"afterwards")
    assert transfers.end("y") == 0, transfers.log("y")
    transfers.kill("c", signal.SIGCONT)
    wait_for(lambda: "were missed" in transfers.log("c") or len(transfers.order("c")) == 2, "c to continue")
    transfers.sender("z", b"at last")
    assert transfers.end("z") == 0, transfers.log("z")
    for name in "abc":
        wait_for(lambda name=name: transfers.has(name, "z.bin", b"at last"), "the transfer")  # type: ignore[misc]
    assert transfers.order("a") == transfers.order("b")
    order = transfers.order("c")
    assert order == transfers.order("a") or (
        "were missed" in transfers.log("c") and [line for line in transfers.order("a") if line in order] == order
    )


def test_bad_arguments(transfers: Transfers) -> None:
    transfers.start("a", "send", str(transfers.folder / "nosuch"))
    assert transfers.end("a") == 2
    assert "nosuch is not a file" in transfers.log("a")
    transfers.start("b", "receive", str(transfers.folder / "b"), "--multicast", "239.1.1.1:7000")
    assert transfers.end("b") == 2
    assert "--multicast needs --interface" in transfers.log("b")
