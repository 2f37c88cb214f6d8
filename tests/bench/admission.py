"""``./dev bench admission``: overhead of admission control for a request that is served at once.

Requests the same small page from a node without a specification, from a node with five classes, and from one of three
nodes of a cluster with the same classes. The rounds alternate on the same core, so that disturbances of the machine
affect all of them.

The verdict uses CPU time: how many requests a node serves in a second of its own CPU time, including that of the group,
by the kernel's count in nanoseconds. On a dedicated core this is the request rate; the measured rate is printed as
well. Memory layout makes one process faster than its twin by up to a fifth, for as long as it lives. So all nodes are
restarted many times. Each start gives one ratio (that of the medians of its rounds), and the result is the median of
these ratios, with the quartiles beside it. Where the goal lies between the quartiles, the times do not decide. The
number of instructions per request (`--instructions`) varies by a few per cent only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.bench import instructions, wrk
from tests.bench.contenders import SERVER_CORE, can_pin
from tests.support.clusters import RunningCluster
from tests.support.nodes import RunningNode

SPEC = "set lifetime = 500ms\n" + "".join(f"</{name}>.server_resource = {share}%\n" for name, share in
                                          (("a", 10), ("b", 15), ("c", 20), ("d", 25), ("e", 30)))  # fmt: skip
PAGE = "/c/page.html"
PAGE_BYTES = 1024
GOALS = {"qos": ("plain", 0.95), "member": ("qos", 0.90)}
LOG = ("--access-log-rotate", "64MB", "--access-log-keep", "1")
FULL_PER_S = 60_000  # about what a node serves here, for what it does by the clock


class Figure(NamedTuple):
    rate_per_s: float
    cpu_us: float  # per request


Start = dict[str, Figure]  # by node: the medians of its rounds


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench admission", description=__doc__)
    parser.add_argument("--seconds", type=int, default=1, help="duration of a measurement")
    parser.add_argument("--starts", type=int, default=12, help="number of restarts of the nodes")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per start")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument(
        "--instructions", action="store_true", help="count instructions instead of time (needs valgrind)"
    )
    parser.add_argument("--out", type=Path, default=Path("bench-results/admission.json"))
    options = parser.parse_args(arguments)
    if options.instructions:
        return _count()
    wrk.require()
    starts = [_measure_start(number, options) for number in range(options.starts)]
    print()
    report = {name: _judge(name, peer, goal, starts) for name, (peer, goal) in GOALS.items()}
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({"starts": starts, "ratios": report}, indent=2) + "\n")
    return 0


def _measure_start(number: int, options: argparse.Namespace) -> Start:
    figures: dict[str, list[Figure]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        nodes = _start(Path(folder), stack)
        for node in nodes.values():
            wrk.load(f"{node.url}{PAGE}", connections=options.connections, seconds=1)  # warm
        for turn in range(options.rounds):
            for name, node in sorted(nodes.items(), reverse=(number + turn) % 2 == 1):  # nobody is always the first
                figures[name].append(_measure(node, options.connections, options.seconds))
    found = {
        name: Figure(*(statistics.median(column) for column in zip(*rows, strict=True)))
        for name, rows in figures.items()
    }
    told = "   ".join(f"{name} {one.rate_per_s:6.0f}/s {one.cpu_us:5.1f} us" for name, one in sorted(found.items()))
    print(f"start {number + 1:2}/{options.starts}   {told}")
    sys.stdout.flush()
    return found


def _judge(name: str, peer: str, goal: float, starts: list[Start]) -> dict[str, object]:
    """Prints the verdict by CPU time, over all starts."""
    work = [one[peer].cpu_us / one[name].cpu_us for one in starts]
    rate = statistics.median(one[name].rate_per_s / one[peer].rate_per_s for one in starts)
    median = statistics.median(work)
    low, _, high = statistics.quantiles(work, n=4) if len(work) > 1 else (median,) * 3
    verdict = "met" if median >= goal else "MISSED"
    if low < goal < high:
        verdict += ", but the starts differ by more than that (see --instructions)"
    print(
        f"{name} / {peer}: {median:.3f} of its requests in the same processor time, half of the starts between "
        f"{low:.3f} and {high:.3f}; rate {rate:.3f}; goal {goal} {verdict}"
    )
    return {"beside": peer, "work": median, "quartiles": (low, high), "rate": rate, "goal": goal, "verdict": verdict}


def _site(scratch: Path) -> tuple[Path, Path]:
    """Creates a page and a specification for it."""
    page = scratch / "site" / PAGE[1:]
    page.parent.mkdir(parents=True)
    page.write_bytes(os.urandom(PAGE_BYTES))
    spec = scratch / "spec.webqos"
    spec.write_text(SPEC)
    for name in ("plain", "qos", "cluster"):
        (scratch / name).mkdir()
    return scratch / "site", spec


def _start(scratch: Path, stack: contextlib.ExitStack) -> dict[str, RunningNode]:
    site, spec = _site(scratch)
    plain = stack.enter_context(RunningNode(site, scratch / "plain", *LOG))
    qos = stack.enter_context(RunningNode(site, scratch / "qos", "--spec", str(spec), *LOG))
    cluster = stack.enter_context(RunningCluster(site, scratch / "cluster", SPEC, "abc", *LOG))
    measured = {"plain": plain, "qos": qos, "member": cluster.nodes["a"]}
    if can_pin():
        for node in (plain, qos, *cluster.nodes.values()):
            for thread in psutil.Process(node.process.pid).threads():
                os.sched_setaffinity(thread.id, {SERVER_CORE})
    return measured


def _measure(node: RunningNode, connections: int, seconds: int) -> Figure:
    before_s = _cpu_s(node.process.pid)
    load = wrk.load(f"{node.url}{PAGE}", connections=connections, seconds=seconds)
    return Figure(load.rate_per_s, (_cpu_s(node.process.pid) - before_s) / load.requests * 1e6)


def _cpu_s(pid: int) -> float:
    """CPU time of a process, all threads."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def _count() -> int:
    if not instructions.can_count():
        raise SystemExit("bench: needs valgrind to count instructions (apt-get install valgrind)")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        scratch = Path(folder)
        site, spec = _site(scratch)
        found = {}
        for name, extra in (("plain", ()), ("qos", ("--spec", str(spec)))):
            before = instructions.before(scratch / name)
            with RunningNode(site, scratch / name, *LOG, *extra, before=before) as node:
                found[name] = instructions.count(node, PAGE, scratch / name)
        cluster = stack.enter_context(RunningCluster(site, scratch / "cluster", SPEC, "ab", *LOG))
        third = cluster.add("c", before=instructions.before(scratch / "cluster"))
        cluster.together("abc")
        found["member"] = instructions.count(third, PAGE, scratch / "cluster")
    for name, one in found.items():
        peer = GOALS[name][0] if name in GOALS else name
        each, theirs = one.each_at(FULL_PER_S), found[peer].each_at(FULL_PER_S)
        print(
            f"{name:<7} {one.of_request:7.0f} instructions a request and {one.of_second / 1e6:5.2f} million a second: "
            f"{each:7.0f} a request at {FULL_PER_S}/s, as in {theirs / each:.3f} of the requests of {peer}"
        )
    return 0
