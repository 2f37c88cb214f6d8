"""Test harness for members as real processes: start, kill and stop them, then check their traces and logs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.entries import APPLICATION
from cluster.runtime.net.keys import make_key_file
from cluster.specs.traces import founder_of, judge, merge
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from types import TracebackType

    from loadgen.experiments.namespaces import NamespaceNetwork
    from tests.cluster.runtime.net.bad_network import Wires

TOP = Path(__file__).resolve().parents[3]
PAUSE_S = 0.01  # a few hundred entries per second and member: enough, and quickly checked


def figure(port: int, name: str) -> float:
    """The current value of a metric of the member that serves metrics on this port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        for line in answer:
            shown, _, value = line.decode().rpartition(" ")
            if shown == name:
                return float(value)
    raise AssertionError(f"there is no figure {name}")


class Member:
    """One process. Its output events are kept; `status` is the last status."""

    def __init__(self, name: str, arguments: list[str], folder: Path, before: list[str]) -> None:
        self.name = name
        self.folder = folder
        self.events: list[dict[str, Any]] = []
        self._errors = (folder / f"{name}.stderr").open("ab")
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "cluster", "node", "--name", name, *arguments],
            cwd=TOP,
            env={**os.environ, "PYTHONPATH": str(TOP)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def _last(self, *kinds: str) -> dict[str, Any]:
        return next((event for event in reversed(self.events) if event["event"] in kinds), {})

    @property
    def address(self) -> str:
        def listening() -> str:
            assert self.process.poll() is None, self.stderr
            found = self._last("listening").get("addresses")
            return str(found[0]) if found else ""

        return wait_for(listening, f"{self.name} listens")

    @property
    def stderr(self) -> str:
        return (self.folder / f"{self.name}.stderr").read_text()

    @property
    def status(self) -> dict[str, Any]:
        return self._last("status", "closed")

    @property
    def primary(self) -> list[str] | None:
        """The member names of its primary view."""
        members = self._last("primary").get("members")
        return sorted(member.partition(".")[0] for member in members) if members is not None else None

    @property
    def delivered(self) -> int:
        return int(self.status.get("delivered", 0))

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def confirmed(self, text: str) -> bool:
        return any(event["event"] == "confirmed" and event["entry"] == text for event in self.events)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)
        self._reader.join(60)
        self._close_files()

    def stop(self) -> int:
        """Close it properly; returns its exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._reader.join(10)
        self._close_files()
        return code

    def _close_files(self) -> None:
        for file in (self.process.stdin, self.process.stdout, self._errors):
            if file is not None and not file.closed:
                with suppress(BrokenPipeError):
                    file.close()


class Cluster:
    """A group of members; the first founds it. `judge` checks what they recorded."""

    def __init__(
        self,
        folder: Path,
        *,
        durable: bool = False,
        network: NamespaceNetwork | None = None,
        wires: Wires | None = None,
    ) -> None:
        self.folder = folder
        self.durable = durable
        self.network = network  # network namespaces of the members, if not all on loopback
        self.wires = wires  # proxies in front of the members, if any
        self.members: dict[str, Member] = {}
        self._addresses: dict[str, str] = {}  # addresses of the first life: restarted members listen there again
        self._lives: dict[str, int] = {}
        self.key_file = folder / "key"
        make_key_file(self.key_file)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: TracebackType | BaseException | None) -> None:
        for member in self.members.values():
            member.kill()
        if kind is not None:
            for member in self.members.values():
                print(f"---- {member.name}\n{member.stderr[-4000:]}\n{member.events[-3:]}")

    def start(self, name: str, *more: str, before: tuple[str, ...] = ()) -> Member:
        """Start a process of this name. A process that ran before restarts (from its disk, if it has one).

        `before`: a command prefix that runs it in its own environment.
        """
        member = self._spawn(name, *more, before=before)
        self._addresses[name] = member.address
        return member

    def _spawn(self, name: str, *more: str, before: tuple[str, ...] = ()) -> Member:
        life = self._lives[name] = self._lives.get(name, 0) + 1
        own = f"{name}-{life}"  # files of this life: the last line may be torn
        file = name if self.durable else own
        arguments = [
            "--key-file",
            str(self.key_file),
            "--log-level",
            "INFO",
            "--confirmed",
            self._file("confirmed", own),
        ]
        arguments += ["--order-log", self._file("order", own)]
        place = self.network.address(name) if self.network is not None else "127.0.0.1"
        listen = self._addresses.get(name, f"{place}:0")
        if self.wires is not None:
            listen = self.wires.listen(name)
            arguments += ["--advertise", self.wires.address(name)]
        arguments += ["--listen", listen, "--trace", self._file("trace", file)]
        if self.durable:
            arguments += ["--data", str(self.folder / f"data-{name}")]
        first = not self._addresses
        if first:
            arguments.append("--found")
        else:
            contacts = [address for other, address in self._addresses.items() if other != name]
            arguments += [word for contact in contacts for word in ("--join", contact)]
        member = self.members[name] = Member(
            name,
            [*arguments, *more],
            self.folder,
            [*(self.network.at(name) if self.network is not None else ()), *before],
        )
        return member

    def _file(self, kind: str, name: str) -> str:
        return str(self.folder / f"{kind}-{name}")

    def begin(self, names: str) -> Cluster:
        self.start(names[0])
        for name in names[1:]:  # all others at once
            self._spawn(name)
        for name in names[1:]:
            self._addresses[name] = self.members[name].address
        return self.wait_for_primary(names)

    def load(self, outstanding: int) -> Cluster:
        """From now on each running member keeps so many of its own entries in flight, with a pause after each."""
        for member in self.members.values():
            if member.process.poll() is None:
                member.say(f".load {outstanding} {PAUSE_S}")
        return self

    def wait_for_primary(self, names: str) -> Cluster:
        wait_for(
            lambda: all(self.members[name].primary == sorted(names) for name in names),
            f"a primary view of {names}; it was {[(n, m.primary) for n, m in self.members.items()]}",
            60.0,
        )
        return self

    def wait_until_confirmed_at(self, names: str, count: int = 200) -> Cluster:
        """Wait until each of these members had `count` more of its own entries confirmed."""
        before = {name: self.members[name].delivered for name in names}
        wait_for(
            lambda: all(self.members[name].delivered >= before[name] + count for name in names),
            f"{count} more entries confirmed at each of {names}",
            60.0,
        )
        return self

    def quiet(self) -> Cluster:
        """Stop the load and wait for all outcomes."""
        running = [member for member in self.members.values() if member.process.poll() is None]
        for member in running:
            member.say(".load 0")

        def settled() -> bool:
            statuses = [member.status for member in running]
            return (
                all(status.get("outstanding") == 0 for status in statuses)
                and len({(status["position"], status["state"]) for status in statuses}) == 1
            )

        wait_for(settled, "all members at rest in the same state", 60.0)
        return self

    def stop(self) -> Cluster:
        for member in self.members.values():
            if member.process.poll() is None:
                assert member.stop() == 0, member.stderr
        return self

    # ---- checks

    def judge(self) -> None:
        """Check that order logs agree, confirmed entries exist exactly once, and specifications allow every step."""
        order: dict[int, tuple[str, str, str]] = {}
        for path in sorted(self.folder.glob("order-*")):
            for line in path.read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    continue  # killed in the middle of a write
                entry = json.loads(line)
                what = (entry["label"], entry["kind"], entry["sha256"])
                assert order.setdefault(entry["i"], what) == what, f"{path.name} differs at {entry['i']}"
        assert sorted(order) == list(range(len(order))), "positions are missing"
        labels = [label for label, _, _ in order.values()]
        assert len(set(labels)) == len(labels), "a label is there twice"
        bodies = Counter(digest for _, kind, digest in order.values() if kind == APPLICATION)  # all are different
        assert not bodies or max(bodies.values()) == 1, "an entry is there twice"
        for path in sorted(self.folder.glob("confirmed-*")):
            for line in path.read_bytes().splitlines(keepends=True):
                if line.endswith(b"\n"):
                    number, _, name, digest = line.decode().split()
                    assert bodies[digest] == 1, f"{path.name}: {name} was confirmed and is missing"
                    position = int(number)  # negative: its position was not known there
                    assert position < 0 or order[position][2] == digest, f"{path.name}: {name} is not at {position}"
        traces = sorted(self.folder.glob("trace-*"))
        files = {path.name: path.read_bytes().splitlines(keepends=True) for path in traces}
        verdict = judge(founder_of(files), merge(files))
        assert verdict.violation is None, str(verdict.violation)
        assert verdict.steps > 100
