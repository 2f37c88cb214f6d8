"""``./dev bench admission``: what keeping promises costs a request that finds room.

The same small page from a node without a specification, from one with five classes, and from one of three nodes of a
cluster with the same classes, round after round, one after the other on the same core, so that whatever else happens on
the machine happens to all. What counts are ratios of one run: of the rate, and of the node's own processor time per
request (that of the group included), which is what is left where the machine is shared. Where its memory happens to lie
makes one process faster than its twin by some per cent for as long as it lives, so all are started anew several times.
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

import psutil

from tests.bench import wrk
from tests.bench.contenders import SERVER_CORE, can_pin
from tests.support.clusters import RunningCluster
from tests.support.nodes import RunningNode

SPEC = "set lifetime = 500ms\n" + "".join(f"</{name}>.server_resource = {share}%\n" for name, share in
                                          (("a", 10), ("b", 15), ("c", 20), ("d", 25), ("e", 30)))  # fmt: skip
GOALS = {"qos": ("plain", 0.95), "member": ("qos", 0.90)}
LOG = ("--access-log-rotate", "64MB", "--access-log-keep", "1")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench admission", description=__doc__)
    parser.add_argument("--seconds", type=int, default=1, help="of each measurement")
    parser.add_argument("--starts", type=int, default=8, help="how often the nodes are started anew")
    parser.add_argument("--rounds", type=int, default=3, help="with each of them")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("bench-results/admission.json"))
    options = parser.parse_args(arguments)
    wrk.require()
    figures: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for start in range(options.starts):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            scratch = Path(folder)
            (scratch / "site" / "c").mkdir(parents=True)
            (scratch / "site" / "c" / "page.html").write_bytes(os.urandom(1024))
            nodes = _start(scratch, stack)
            for turn in range(options.rounds):
                for name, node in sorted(nodes.items(), reverse=(start + turn) % 2 == 1):  # nobody is always the first
                    rate, cpu_us = _measure(node, options.connections, options.seconds)
                    figures[name].append((rate, cpu_us))
                    print(f"start {start + 1}/{options.starts} {name:<7} {rate:9.0f}/s  cpu {cpu_us:6.1f} us each")
                    sys.stdout.flush()
    report = {}
    print()
    for name, (peer, goal) in GOALS.items():
        rate = statistics.median(ours[0] / theirs[0] for ours, theirs in zip(figures[name], figures[peer], strict=True))
        cpu = statistics.median(theirs[1] / ours[1] for ours, theirs in zip(figures[name], figures[peer], strict=True))
        report[name] = {"beside": peer, "rate_ratio": rate, "cpu_ratio": cpu, "goal": goal}
        verdict = "met" if max(rate, cpu) >= goal else "MISSED"
        print(f"{name} / {peer}: rate {rate:.3f}, work per processor second {cpu:.3f}, goal {goal} {verdict}")
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({"figures": figures, "ratios": report}, indent=2) + "\n")
    return 0


def _start(scratch: Path, stack: contextlib.ExitStack) -> dict[str, RunningNode]:
    site = scratch / "site"
    spec = scratch / "spec.webqos"
    spec.write_text(SPEC)
    for name in ("plain", "qos", "cluster"):
        (scratch / name).mkdir()
    plain = stack.enter_context(RunningNode(site, scratch / "plain", *LOG))
    qos = stack.enter_context(RunningNode(site, scratch / "qos", "--spec", str(spec), *LOG))
    cluster = stack.enter_context(RunningCluster(site, scratch / "cluster", SPEC, "abc", *LOG))
    measured = {"plain": plain, "qos": qos, "member": cluster.nodes["a"]}
    if can_pin():
        for node in (plain, qos, *cluster.nodes.values()):
            for thread in psutil.Process(node.process.pid).threads():
                os.sched_setaffinity(thread.id, {SERVER_CORE})
    return measured


def _measure(node: RunningNode, connections: int, seconds: int) -> tuple[float, float]:
    url = f"{node.url}/c/page.html"
    wrk.load(url, connections=connections, seconds=1)  # warm
    process = psutil.Process(node.process.pid)
    before = process.cpu_times()
    load = wrk.load(url, connections=connections, seconds=seconds)
    after = process.cpu_times()
    cpu_s = after.user + after.system - before.user - before.system
    return load.rate_per_s, cpu_s / load.requests * 1e6
