"""corosync (CPG, agreed order) as a contender of ``./dev bench group``: three daemons in network namespaces, as root.

The daemons identify each other by address, and clients find their daemon by the name of a local socket. So three
daemons on one machine need three namespaces. The client is in C (`group_corosync.c`), compiled where `libcpg-dev` is
installed. Agreed order guarantees less than ours: a message is delivered before every member has it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psutil

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from tests.bench.group_processes import CORES, Members

SOURCE = Path(__file__).with_name("group_corosync.c")
NAMES = "abc"
START_S = 20.0
JOIN_S = 30.0  # beside the time of a load

CONFIGURATION = """
totem {{
  version: 2
  cluster_name: bench
  transport: udpu
  crypto_cipher: none
  crypto_hash: none
}}
nodelist {{
{nodes}
}}
logging {{
  to_syslog: no
  to_stderr: no
}}
system {{
  sched_rr: no
  move_to_root_cgroup: no
  state_dir: {state}
}}
"""
NODE = """  node {{
    ring0_addr: {address}
    nodeid: {number}
    name: {name}
  }}"""
# One daemon to a machine, says the file in /run that it locks: each gets a /run of its own.
DAEMON = ["sh", "-c", 'mount -t tmpfs none /run && exec corosync -f -c "$0"']  # and its configuration


def missing() -> str:
    """Why corosync cannot be measured; empty if it can."""
    if not shutil.which("corosync") or not Path("/usr/include/corosync/cpg.h").exists():
        return "corosync is not installed (on Debian: apt-get install corosync libcpg-dev)"
    if not shutil.which("cc"):
        return "corosync is not measured: its client needs a C compiler (cc)"
    try:
        with NamespaceNetwork("a"):
            return ""
    except NamespacesUnavailable as error:
        return f"corosync is not measured: it needs network namespaces ({error})"


class CorosyncMembers(Members):
    def __init__(self) -> None:
        self.processes = []
        self._folder = Path(tempfile.mkdtemp())
        self._spaces = NamespaceNetwork(NAMES)
        self._others: list[subprocess.Popen[bytes]] = []
        try:
            self._spaces.__enter__()
            self._client = self._folder / "client"
            subprocess.run(["cc", "-O2", "-o", self._client, SOURCE, "-lcpg"], check=True, timeout=60)
            for number, name in enumerate(NAMES, 1):
                self._run(name, [*DAEMON, self._configure(name)])
                if number > 1:
                    self._join(name, number)
        except BaseException:
            self.close()
            raise

    def _configure(self, name: str) -> str:
        nodes = [NODE.format(address=self._spaces.address(n), number=i, name=n) for i, n in enumerate(NAMES, 1)]
        state = self._folder / name
        state.mkdir()
        file = self._folder / f"{name}.conf"
        file.write_text(CONFIGURATION.format(nodes="\n".join(nodes), state=state))
        return str(file)

    def _run(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*self._spaces.at(name), *command],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.sched_setaffinity(process.pid, sorted(os.sched_getaffinity(0))[:CORES])
        self._others.append(process)
        return process

    def _join(self, name: str, number: int) -> None:
        """Starts the client, again until the daemon listens: before that a client exits at once."""
        stop = time.monotonic() + START_S
        while time.monotonic() < stop:
            client = self._run(name, [str(self._client), str(number)])
            try:
                client.wait(0.5)
            except subprocess.TimeoutExpired:
                return
            self._others.remove(client)
        raise RuntimeError(f"corosync does not answer after {START_S:g} s")

    def load(self, outstanding: int, seconds: float) -> dict[str, float]:
        before = self._cpu_s()
        command = [*self._spaces.at("a"), str(self._client), "1", str(outstanding), str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + JOIN_S, check=True)
        found: dict[str, float] = json.loads(done.stdout)
        found["cpu_us"] += 1e6 * (self._cpu_s() - before) / found["count"]
        return found

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._others]

    def _cpu_s(self) -> float:
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in self.pids)

    def close(self) -> None:
        for process in reversed(self._others):
            process.kill()
            process.wait()
        self._spaces.__exit__()
        shutil.rmtree(self._folder, ignore_errors=True)
