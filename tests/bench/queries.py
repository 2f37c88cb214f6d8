"""``./dev bench queries``: queries of the data service, shared by 1, 3 and 5 members. As root.

A query takes 1 ms of processor time. Each member is a process in a cgroup (cpu controller, version 1 or 2) that gives
it a share of one processor, so that five members on few processors have five times the power of one. Clients inside
each member keep queries open. Goals: n members do at least 0.9 n times the work of one; by round robin, the numbers of
queries that the members execute differ by at most 2 %; with one member of three at half speed, the least loaded member
is a better choice than round robin by a factor of 1.15.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from cluster import make_key_file

GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 20_000
OPEN_EACH = 64  # queries that the clients of each member keep open
MEMBERS_MAX = 5
WITHIN_S = 60.0
ROUND_ROBIN, LEAST_LOADED = "round robin", "least loaded"


class Cgroup:
    """A cgroup that limits its processes to a share of one processor."""

    def __init__(self, name: str, share: float) -> None:
        v1 = GROUPS / "cpu"
        root = v1 if (v1 / "cpu.cfs_quota_us").exists() else GROUPS
        self.path = root / name
        self.path.mkdir()
        quota_us = round(share * PERIOD_US)
        if root is v1:
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.path / "cpu.cfs_quota_us").write_text(str(quota_us))
            (self.path / "cpu.shares").write_text(str(1 << 18))  # other programs must not take its share
        else:
            (self.path / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            (self.path / "cpu.weight").write_text("10000")

    def add(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        self.path.rmdir()


class Member:
    """A member as a process in its own cgroup."""

    def __init__(self, name: str, key_file: Path, contacts: list[str], sharing: str) -> None:
        join = [word for contact in contacts for word in ("--join", contact)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.queries_member", name, "--key-file", str(key_file), *join,
             "--sharing", sharing],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.address = self.read()["address"]
        self.cgroup: Cgroup | None = None

    def limit(self, share: float) -> None:
        self.cgroup = Cgroup(f"qosweb-bench-{self.process.pid}", share)
        self.cgroup.add(self.process.pid)

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def count(self) -> dict[str, Any]:
        self.say("count")
        return self.read()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        if self.cgroup is not None:
            self.cgroup.remove()


def wait_until(members: list[Member], field: str, value: int) -> None:
    limit = time.monotonic() + WITHIN_S
    while any(member.count()[field] != value for member in members):
        if time.monotonic() > limit:
            raise TimeoutError(
                f"{field} of the members is {[member.count()[field] for member in members]}, not {value}"
            )
        time.sleep(0.05)


class Trial(NamedTuple):
    """What the members of one measurement did."""

    rate: float  # queries per second
    executed: list[int]  # by each, from the first query to the last
    cpu_ms: float  # processor time of all members for one query
    used: float  # part of their shares that they used: below 1, the machine is the limit, not the shares


def trial(shares: list[float], sharing: str, seconds: float) -> Trial:
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        key_file = Path(folder) / "key"
        make_key_file(key_file)
        members: list[Member] = []
        for number in range(len(shares)):
            members.append(Member(f"m{number}", key_file, [member.address for member in members], sharing))
            stack.callback(members[-1].stop)
        wait_until(members, "members", len(members))
        for member, share in zip(members, shares, strict=True):
            member.limit(share)
            member.say(f"load {OPEN_EACH}")
        time.sleep(min(2.0, seconds / 2))
        start, before = time.monotonic(), [member.count() for member in members]
        time.sleep(seconds)
        after, end = [member.count() for member in members], time.monotonic()
        for member in members:
            member.say("load 0")
        wait_until(members, "open", 0)
        total, cpu_s = (
            sum(late[field] - early[field] for early, late in zip(before, after, strict=True))
            for field in ("executed", "cpu_s")
        )
        executed = [member.count()["executed"] for member in members]
        return Trial(total / (end - start), executed, cpu_s / total * 1e3, cpu_s / (end - start) / sum(shares))


def default_share() -> float:
    """As much as five members can have at once, with an eighth of the processors left for the kernel and this program.

    The larger the share, the less the constant cost of membership and timers matters, which grows with the members.
    """
    return min(0.5, round(7 / 8 * (os.cpu_count() or 1) / MEMBERS_MAX, 2))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench queries", description=__doc__)
    parser.add_argument(
        "--share", type=float, default=default_share(), help="share of a processor for each member (%(default).2f)"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    given = parser.parse_args(arguments)
    if os.geteuid() != 0 or not os.access(GROUPS, os.W_OK):
        print("bench queries: needs root and a writable /sys/fs/cgroup", file=sys.stderr)
        return 2
    print(f"each member has {given.share:.0%} of a processor (cgroup), a query takes 1 ms of processor time")
    print(
        f"{'members':>8} {'sharing':<14} {'queries/s':>10} {'times one':>10} {'ms each':>8} {'used':>6}   "
        "executed by each; used: part of the shares"
    )
    failures: list[str] = []
    one = 0.0
    for count in (1, 3, MEMBERS_MAX):
        found = trial([given.share] * count, ROUND_ROBIN, given.seconds)
        rate, executed = found.rate, found.executed
        one = one or rate
        show(count, ROUND_ROBIN, found, one)
        if rate < 0.9 * count * one:
            failures.append(f"{count} members do {rate / one:.2f} times the work of one, not {0.9 * count:.1f}")
        spread = (max(executed) - min(executed)) / (sum(executed) / count)
        if spread > 0.02:
            failures.append(f"the shares of {count} members differ by {spread:.1%}, not by 2 % at most")
    shares = [given.share, given.share / 2, given.share]
    by_turns, by_load = (trial(shares, sharing, given.seconds) for sharing in (ROUND_ROBIN, LEAST_LOADED))
    show(3, ROUND_ROBIN, by_turns, one, "the second at half speed")
    show(3, LEAST_LOADED, by_load, one, "the second at half speed")
    ratio = by_load.rate / by_turns.rate
    print(f"\nleast loaded / round robin with a slow member: {ratio:.2f}")
    if ratio < 1.15:
        failures.append(f"least loaded does {ratio:.2f} times the work of round robin, not 1.15")
    for failure in failures:
        print(f"goal missed: {failure}")
    return 1 if failures else 0


def show(count: int, sharing: str, found: Trial, one: float, note: str = "") -> None:
    print(
        f"{count:>8} {sharing:<14} {found.rate:>10.1f} {found.rate / one:>10.2f} {found.cpu_ms:>8.3f} "
        f"{found.used:>6.0%}   {found.executed} {note}",
        flush=True,
    )
