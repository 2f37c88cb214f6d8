"""Controls the processes of one contender of ``./dev bench group``: start, load, status, stop."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.bench import group_etcd

if TYPE_CHECKING:
    from loadgen.experiments.namespaces import NamespaceNetwork

TOP = Path(__file__).resolve().parents[2]
CORES = 2  # that all members of a contender share, however many there are


class Members:
    """Members of one kind, each a process, and each in its own namespace of a `network`. One member submits."""

    def __init__(
        self, kind: str, submitter: int, names: str = "abc", network: NamespaceNetwork | None = None, **role: Any
    ) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        self._network = network
        self.submitter = submitter
        join: list[str] = []
        try:
            for name in names:
                own = {**role, "data": f"{role['data']}/{name}"} if role.get("data") else role
                place = network.address(name) if network is not None else "127.0.0.1"
                process = self._start({"kind": kind, "name": name, "listen": f"{place}:0", "join": join, **own})
                address = self._answer(process)["address"]
                join = join or ([address] if address else [])
            for rank, process in enumerate(self.processes):
                if self.order(process, {"do": "whole", "count": len(names)})["leads"]:
                    self.submitter = rank
        except BaseException:
            self.close()
            raise

    def _start(self, role: dict[str, Any]) -> subprocess.Popen[str]:
        before = self._network.at(role["name"]) if self._network is not None else []
        process = subprocess.Popen(
            [*before, sys.executable, "-m", "tests.bench.group_members", json.dumps(role)],
            cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.sched_setaffinity(process.pid, sorted(os.sched_getaffinity(0))[:CORES])
        self.processes.append(process)
        return process

    @staticmethod
    def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("a member ended without an answer")
        found: dict[str, Any] = json.loads(line)
        return found

    def order(self, process: subprocess.Popen[str], order: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        return self._answer(process)

    def submit(self, order: dict[str, Any]) -> dict[str, float]:
        """Sends a command to the submitting member."""
        return self.order(self.processes[self.submitter], order)

    def load(self, outstanding: int, seconds: float) -> dict[str, float]:
        before = self._cpu_s()
        found = self.submit({"do": "load", "outstanding": outstanding, "seconds": seconds})
        found["cpu_us"] = 1e6 * (self._cpu_s() - before) / found["count"]
        return found

    @property
    def suspicions(self) -> int:
        return sum(int(self.order(process, {"do": "cpu"})["suspicions"]) for process in self.processes)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.processes]

    def _cpu_s(self) -> float:
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in self.pids)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            for file in (process.stdin, process.stdout):
                if file is not None:
                    file.close()


class EtcdMembers(Members):
    """Three etcd servers and a client process. `folder`: where their data goes."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=folder))
        self._servers = group_etcd.Servers(self._folder)
        try:
            for server in self._servers.processes:
                os.sched_setaffinity(server.pid, sorted(os.sched_getaffinity(0))[:CORES])
            super().__init__("etcd", 0, "a", port=self._servers.leader())
        except BaseException:
            self._end_servers()
            raise

    @property
    def pids(self) -> list[int]:
        return [*super().pids, *(server.pid for server in self._servers.processes)]

    def close(self) -> None:
        super().close()
        self._end_servers()

    def _end_servers(self) -> None:
        self._servers.close()
        shutil.rmtree(self._folder, ignore_errors=True)
