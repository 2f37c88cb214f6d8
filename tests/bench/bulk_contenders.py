"""Contenders of ``./dev bench bulk``. Each sends one file to all receivers and returns what it measured."""

from __future__ import annotations

import filecmp
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cluster.runtime.net.keys import make_key_file
from tests.bench.bulk_network import SENDER
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.bulk_network import BulkNetwork

TOP = Path(__file__).resolve().parents[2]
TRANSFER_S = 240.0  # the longest transfer
GROUP = "239.255.78.9"
PORT = 7000
TCP_PORT = 7001

_TCP_RECEIVER = """
import socket, sys
with socket.create_server(("", int(sys.argv[1]))) as listener, open(sys.argv[2], "wb") as file:
    print("ready", flush=True)
    connection, _ = listener.accept()
    while data := connection.recv(1 << 18):
        file.write(data)
    file.flush()
    connection.sendall(b"1")
"""
_TCP_SENDER = """
import socket, sys, threading
def send(address):
    with socket.create_connection((address, int(sys.argv[1]))) as connection, open(sys.argv[2], "rb") as file:
        connection.sendfile(file)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
threads = [threading.Thread(target=send, args=(address,)) for address in sys.argv[3:]]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@dataclass
class Transfer:
    """What one transfer cost."""

    seconds: float  # until all receivers have the file
    mbit_s: float  # content in that time
    wire: float  # bytes of all frames by those of the content
    cpu_s: float  # of all processes
    sender_cpu_s: float
    lost: float = 0
    naks: int | None = None
    absent: str = ""  # the receivers without the file
    note: str = ""


def median(transfers: list[Transfer]) -> Transfer:
    """The median of each figure. A receiver without the file in any run counts."""
    figures = ("seconds", "mbit_s", "wire", "cpu_s", "sender_cpu_s", "lost")
    found = Transfer(*(statistics.median(getattr(one, name) for one in transfers) for name in figures))
    if all(one.naks is not None for one in transfers):
        found.naks = int(statistics.median(one.naks or 0 for one in transfers))
    found.absent = " ".join(one.absent for one in transfers if one.absent)
    return found


@dataclass
class Run:
    """The processes of one transfer."""

    network: BulkNetwork
    content: Path
    place: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)

    def start(self, name: str, *command: str) -> None:
        with (self.place / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [*self.network.at(name), *command], cwd=TOP, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": str(TOP)},
            )  # fmt: skip

    def log(self, name: str) -> str:
        return (self.place / f"{name}.log").read_text(errors="replace")

    def has_ended(self, name: str) -> bool:
        """Whether the process has ended; `end` still gets its processor time."""
        return os.waitid(os.P_PID, self.processes[name].pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self, name: str) -> None:
        """Waits for the end of a process, and keeps its processor time."""
        process = self.processes.pop(name)
        end = time.monotonic() + TRANSFER_S
        while time.monotonic() < end:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu[name] = usage.ru_utime + usage.ru_stime
                return
            time.sleep(0.01)
        process.kill()
        process.wait()
        raise TimeoutError(f"{name} did not end: {self.log(name)[-500:]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Kills what a failed transfer has left."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def stop_all(self, number: signal.Signals = signal.SIGTERM) -> None:
        for name in list(self.processes):
            self.processes[name].send_signal(number)
            self.end(name)

    def has(self, name: str, file: str) -> bool:
        path = self.place / name / file
        return path.exists() and path.stat().st_size == self.content.stat().st_size

    def measure(self, seconds: float, wire_bytes: int, file: str) -> Transfer:
        """Checks the content at all receivers."""
        wrong = [
            name
            for name in self.network.receivers
            if not self.has(name, file) or not filecmp.cmp(self.place / name / file, self.content, shallow=False)
        ]
        size = self.content.stat().st_size
        absent = f"not at {' '.join(wrong)}" if wrong else ""
        for name in wrong:
            print(f"{name}: {self.log(name)[-500:]}")
        cpu = sum(self.cpu.values())
        return Transfer(seconds, 8e-6 * size / seconds, wire_bytes / size, cpu, self.cpu[SENDER], absent=absent)


def bulk(run: Run) -> Transfer:
    network, content, place = run.network, run.content, run.place
    make_key_file(place / "key")
    members = ["--key-file", str(place / "key"), "--multicast", f"{GROUP}:{PORT}", "--interface", "eth0"]
    contact = ""
    for name in network.receivers:
        join = ["--join", contact] if contact else ["--found"]
        run.start(name, sys.executable, "-m", "cluster", "receive", str(place / name), "--name", name,
                  "--listen", f"{network.address(name)}:0", *members, *join)  # fmt: skip
        wait_for(lambda name=name: "receives from" in run.log(name), f"{name} to join")  # type: ignore[misc]
        contact = contact or re.findall(r"listens at (\S+)", run.log(name))[0]
    before, lost, group_bytes = network.wire_bytes(), network.lost(), network.tcp_bytes()
    run.start(SENDER, sys.executable, "-m", "cluster", "send", str(content), "--name", SENDER, "--spool", str(place),
              "--listen", f"{network.address(SENDER)}:0", *members, "--join", contact)  # fmt: skip
    wait_for(lambda: "accepted" in run.log(SENDER) or run.has_ended(SENDER), "the transfer",
             timeout_s=TRANSFER_S)  # fmt: skip
    wire_bytes, lost = network.wire_bytes() - before, network.lost() - lost
    group_bytes = network.tcp_bytes() - group_bytes
    told = re.search(r"bytes in ([\d.]+) s", run.log(SENDER))
    if told is None:
        raise RuntimeError(run.log(SENDER))
    run.end(SENDER)
    for name in network.receivers:
        wait_for(lambda name=name: re.search(r" NAKs|were missed", run.log(name)), f"{name} to have the file")  # type: ignore[misc]
    run.stop_all()
    found = run.measure(float(told[1]), wire_bytes, content.name)
    found.lost = lost
    told_naks = [re.findall(r"(\d+) NAKs", run.log(name)) for name in network.receivers]
    found.naks = sum(int(one[-1]) for one in told_naks if one)
    overruns = sum(network.overruns().values())
    told_again = re.findall(r"\d+ of \d+ receivers have it|\d+ packets sent again", run.log(SENDER))
    found.note = f"group {group_bytes / content.stat().st_size:.3f}, {overruns} overruns, {', '.join(told_again)}"
    return found


def _timed(run: Run, file: str, is_there: Callable[[str], bool]) -> tuple[float, int]:
    """Waits until all receivers have the file. Returns seconds, and bytes on the wire."""
    start, before = time.monotonic(), run.network.wire_bytes()
    wait_for(lambda: all(is_there(name) for name in run.network.receivers), f"{file} at all receivers",
             timeout_s=TRANSFER_S)  # fmt: skip
    return time.monotonic() - start, run.network.wire_bytes() - before


def udpcast(run: Run) -> Transfer:
    network, content, place = run.network, run.content, run.place
    for name in network.receivers:
        (place / name).mkdir()
        run.start(name, "udp-receiver", "--file", str(place / name / content.name), "--interface", "eth0", "--nokbd",
                  "--nosync", "--mcast-rdv-address", GROUP)  # fmt: skip
    run.start(SENDER, "udp-sender", "--file", str(content), "--interface", "eth0", "--nokbd", "--full-duplex",
              "--min-receivers", str(len(network.receivers)), "--max-bitrate", "285m",
              "--mcast-data-address", GROUP, "--mcast-rdv-address", GROUP)  # fmt: skip
    seconds, wire_bytes = _timed(run, content.name, lambda name: run.has_ended(name))
    for name in (SENDER, *network.receivers):
        run.end(name)
    return run.measure(seconds, wire_bytes, content.name)


def uftp(run: Run) -> Transfer:
    network, content, place = run.network, run.content, run.place
    for name in network.receivers:
        (place / name).mkdir()
        run.start(name, "uftpd", "-d", "-D", str(place / name), "-I", "eth0", "-M", GROUP, "-B", "8388608")
    time.sleep(1.0)  # uftpd does not tell when it listens
    run.start(SENDER, "uftp", "-R", "285000", "-I", "eth0", "-M", GROUP, "-P", GROUP, "-B", "8388608", str(content))
    seconds, wire_bytes = _timed(run, content.name, lambda _name: run.has_ended(SENDER))
    run.end(SENDER)
    run.stop_all()
    return run.measure(seconds, wire_bytes, content.name)


def tcp(run: Run) -> Transfer:
    """A stream to each receiver, at the same time."""
    network, content, place = run.network, run.content, run.place
    for name in network.receivers:
        (place / name).mkdir()
        run.start(name, sys.executable, "-c", _TCP_RECEIVER, str(TCP_PORT), str(place / name / content.name))
        wait_for(lambda name=name: "ready" in run.log(name), f"{name} to listen")  # type: ignore[misc]
    addresses = [network.address(name) for name in network.receivers]
    run.start(SENDER, sys.executable, "-c", _TCP_SENDER, str(TCP_PORT), str(content), *addresses)
    seconds, wire_bytes = _timed(run, content.name, lambda _name: run.has_ended(SENDER))
    run.end(SENDER)
    for name in network.receivers:
        run.end(name)
    return run.measure(seconds, wire_bytes, content.name)


CONTENDERS: dict[str, Callable[[Run], Transfer]] = {
    "bulk": bulk,
    "udpcast": udpcast,
    "uftp": uftp,
    "tcp": tcp,
}
