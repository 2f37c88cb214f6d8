"""Counts the CPU instructions of a node per request: a figure that varies by a few per cent only.

Valgrind's callgrind counts them and slows the node down about fifty times. Periodic work (a check every 50 ms, a batch,
a heartbeat) would weigh that much more. So two loads are counted, one at full speed and one at a quarter of it, and the
two equations

    instructions = of_request * requests + of_second * seconds

give the cost of a request and of a second. The loads alternate, because other processes change the node's speed.
Instructions of the kernel are not included.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.nodes import RunningNode

REQUESTS = 1_500
ROUNDS = 4
WARM = 300
SLOWER = 4


class Count(NamedTuple):
    of_request: float
    of_second: float

    def each_at(self, rate_per_s: float) -> float:
        """Instructions per request, at this rate."""
        return self.of_request + self.of_second / rate_per_s


def can_count() -> bool:
    return all(shutil.which(tool) for tool in ("valgrind", "callgrind_control"))


def before(folder: Path) -> list[str]:
    """The command prefix that runs a node under callgrind."""
    return ["valgrind", "--tool=callgrind", "-q", "--instr-atstart=no", f"--callgrind-out-file={folder / 'counted'}"]


def count(node: RunningNode, path: str, folder: Path) -> Count:
    _control(node, "--instr=on")
    address = re.fullmatch(r"http://(.+):(\d+)", node.url)
    assert address is not None
    with socket.create_connection((address[1], int(address[2]))) as connection:
        request = f"GET {path} HTTP/1.1\r\nHost: {address[1]}:{address[2]}\r\n\r\n".encode()
        size = len(_answer(connection, request))
        _ask(connection, request, size, WARM, 0.0)
        _instructions(node, folder)
        fast_s = slow_s = 0.0
        fast = slow = 0
        for _ in range(ROUNDS):
            took_s = _ask(connection, request, size, REQUESTS, 0.0)
            fast_s += took_s
            fast += _instructions(node, folder)
            slow_s += _ask(connection, request, size, REQUESTS, SLOWER * took_s / REQUESTS)
            slow += _instructions(node, folder)
    of_second = max(0.0, (slow - fast) / (slow_s - fast_s))
    return Count((fast - of_second * fast_s) / (ROUNDS * REQUESTS), of_second)


def _answer(connection: socket.socket, request: bytes) -> bytes:
    """Requests the page until it is cached, and returns the expected response."""
    for _ in range(4):
        connection.sendall(request)
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += connection.recv(65_536)
        length = re.search(rb"Content-Length: (\d+)", data)
        assert length is not None, data
        while len(data) < end + 4 + int(length[1]):
            data += connection.recv(65_536)
    return data


def _ask(connection: socket.socket, request: bytes, size: int, count: int, pause_s: float) -> float:
    """Sends requests; returns the seconds that it took."""
    began = time.perf_counter()
    for number in range(count):
        connection.sendall(request)
        left = size
        while left > 0:
            got = len(connection.recv(left))
            assert got, "the node closed the connection"
            left -= got
        behind_s = began + number * pause_s - time.perf_counter()
        if behind_s > 0:
            time.sleep(behind_s)
    return time.perf_counter() - began


def _instructions(node: RunningNode, folder: Path) -> int:
    """Instructions since the last call."""
    _control(node, "--dump")
    found = 0
    for one in folder.glob("counted*"):
        found += sum(map(int, re.findall(r"^summary: (\d+)", one.read_text(errors="replace"), re.MULTILINE)))
        one.unlink()
    return found


def _control(node: RunningNode, what: str) -> None:
    subprocess.run(["callgrind_control", what, str(node.process.pid)], check=True, capture_output=True, timeout=60)
