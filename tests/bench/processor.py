"""``./dev bench processor``: shares while the node's processor is full, and nobody has set a capacity.

A client in C (`processor_client.c`) runs on the other core. Closed loop: classes with given shares always want more,
with connections that stand against the shares. Figures after 2 s: each class's part of the bytes, and the total over
that of a node without a specification in the same run (`plain`). Open loop (``--open K``): requests at K times the best
closed-loop throughput, over 512 connections per class, and 50/s of an always-available class; figures: parts of the
bytes, goodput over the best, and what became of the always-available requests. `asleep` is the part of the time in
which the node's event loop slept: where it is not small, the client limits the rate, and the shares are not judged.
`delayed` is the part of the time in which something else had the node's core: where it is not small, nothing is judged.
`cost` is the processor time per request over that of `plain`. It can be compared also where the others are large.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench.contenders import CLIENT_CORE, SERVER_CORE, can_pin
from tests.support.nodes import RunningNode

WARM_S = 2.0
LIFETIME_MS = 1000
OPEN_CONNECTIONS = 512
ALWAYS_PER_S = 50
FIXED_BYTES = 256
GOALS = {4: 0.80, 64: 0.90, 256: 0.93}  # of the total, by kilobytes of a page


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench processor", description=__doc__)
    parser.add_argument("--kb", default="4,64,256", help="sizes of the pages (4,64,256)")
    parser.add_argument("--shares", default="70/30", help="of the classes, in per cent (70/30)")
    parser.add_argument("--connections", default="16/48", help="of the classes (16/48)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run (5)")
    parser.add_argument("--runs", type=int, default=3, help="repetitions (3)")
    parser.add_argument("--open", type=float, default=0.0, help="also the open loop, at so many times the best")
    parser.add_argument("--out", type=Path, default=Path("bench-results/processor.json"))
    options = parser.parse_args(arguments)
    if shutil.which("gcc") is None:
        raise SystemExit("bench: needs gcc for its client (apt-get install gcc libc6-dev)")
    shares = [int(text) for text in options.shares.split("/")]
    counts = [int(text) for text in options.connections.split("/")]
    if len(shares) != len(counts):
        raise SystemExit("bench: --shares and --connections need the same number of classes")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        client = Path(folder) / "client"
        source = Path(__file__).with_name("processor_client.c")
        subprocess.run(["gcc", "-O2", "-o", str(client), str(source), "-lm"], check=True)
        for kb in map(int, options.kb.split(",")):
            runs = [measure(client, Path(folder), kb, shares, counts, options) for _ in range(options.runs)]
            found += runs
            report(kb, shares, runs)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def measure(
    client: Path, folder: Path, kb: int, shares: list[int], counts: list[int], options: argparse.Namespace
) -> dict[str, Any]:
    names = "abcdefgh"[: len(shares)]
    root = folder / f"site-{kb}"
    for name in (*names, "z"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "page").write_bytes(os.urandom(kb << 10))
    spec = folder / "spec.webqos"
    rules = "".join(f"</{name}>.server_resource = {share}%\n" for name, share in zip(names, shares, strict=True))
    spec.write_text(f"set lifetime = {LIFETIME_MS}ms\n{rules}</z>.available = always\n")
    closed = [f"/{name}/page:0:{count}" for name, count in zip(names, counts, strict=True)]

    def scratch(name: str) -> Path:
        (folder / name).mkdir(exist_ok=True)
        return folder / name

    with ExitStack() as stack:
        log = (
            "--access-log-rotate",
            "64MB",
            "--access-log-keep",
            "1",
            "--max-connections-per-client",
            "5000",
            "--client-share",
            "100%",
        )
        nodes = {
            "plain": stack.enter_context(RunningNode(root, scratch("plain"), *log)),
            "qos": stack.enter_context(RunningNode(root, scratch("qos"), *log, "--spec", str(spec))),
        }
        if can_pin():
            for node in nodes.values():
                os.sched_setaffinity(node.process.pid, {SERVER_CORE})
        result: dict[str, Any] = {"kb": kb}
        for which, node in nodes.items():
            result[which] = load(client, node, options.seconds, closed)
        if options.open:
            best = sum(one["served"] for one in result["qos"]["classes"])
            offered = [f"/{name}/page:{best * options.open / len(names):.1f}:{OPEN_CONNECTIONS}" for name in names]
            offered.append(f"/z/page:{ALWAYS_PER_S}:{OPEN_CONNECTIONS}")
            result["open"] = load(client, nodes["qos"], options.seconds, offered)
            result["open"]["best"] = best
    return result


def load(client: Path, node: RunningNode, seconds: float, classes: list[str]) -> dict[str, Any]:
    port = node.url.rpartition(":")[2]
    began, before = time.perf_counter(), scheduled_s(node.process.pid)
    done = subprocess.run(
        [str(client), port, str(seconds), str(WARM_S), str(LIFETIME_MS), *classes],
        check=True, capture_output=True, text=True, timeout=seconds + 60,
        preexec_fn=(lambda: os.sched_setaffinity(0, {CLIENT_CORE})) if can_pin() else None,
    )  # fmt: skip
    passed_s, after = time.perf_counter() - began, scheduled_s(node.process.pid)
    ran, delayed = ((end - start) / passed_s for start, end in zip(before, after, strict=True))
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        "classes": found,
        "asleep": max(0.0, 1 - ran - delayed),
        "delayed": delayed,
        "cost_us": ran / max(1.0, sum(one["served"] for one in found)) * 1e6,
    }


def scheduled_s(pid: int) -> tuple[float, float]:
    """Seconds in which the main thread ran, and in which it waited for a core."""
    ran_ns, delay_ns, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(ran_ns) / 1e9, int(delay_ns) / 1e9


def parts(classes: list[dict[str, float]]) -> list[float]:
    """Each class's part of the work, in per cent."""
    work = [one["bps"] + one["served"] * FIXED_BYTES for one in classes]
    return [100 * one / max(1.0, sum(work)) for one in work]


def total(run: dict[str, Any]) -> float:
    return float(sum(one["bps"] for one in run["classes"]))


def report(kb: int, shares: list[int], runs: list[dict[str, Any]]) -> None:
    def medians(columns: list[list[float]]) -> str:
        return "/".join(f"{statistics.median(column):.1f}" for column in zip(*columns, strict=True))

    ratios = [total(run["qos"]) / total(run["plain"]) for run in runs]
    goal = GOALS.get(kb)
    print(
        f"{kb:>4} KB closed: parts {medians([parts(run['qos']['classes']) for run in runs])} "
        f"(shares {'/'.join(map(str, shares))}; plain {medians([parts(run['plain']['classes']) for run in runs])}), "
        f"total {statistics.median(ratios):.3f} of plain ({min(ratios):.3f} to {max(ratios):.3f}"
        f"{f'; goal {goal}' if goal else ''}), cost "
        f"{statistics.median(run['qos']['cost_us'] / run['plain']['cost_us'] for run in runs):.3f} of "
        f"{statistics.median(run['plain']['cost_us'] for run in runs):.1f} us, "
        f"{statistics.median(total(run['plain']) for run in runs) / 1e6:.0f} MB/s "
        f"plain, {times([run['qos'] for run in runs])}",
        flush=True,
    )
    if "open" not in runs[0]:
        return
    rows = [run["open"] for run in runs]
    goodput = [sum(one["served"] for one in row["classes"][:-1]) / row["best"] for row in rows]
    always = [row["classes"][-1] for row in rows]
    served = [100 * one["served"] / max(1.0, one["offered"]) for one in always]
    print(
        f"{kb:>4} KB open:   parts {medians([parts(row['classes'][:-1]) for row in rows])}, goodput "
        f"{statistics.median(goodput):.3f} of the best ({min(goodput):.3f} to {max(goodput):.3f}), always "
        f"{statistics.median(served):.1f} % served, p99 {statistics.median(one['p99_ms'] for one in always):.1f} ms, "
        f"denied {medians([[one['denied'] for one in row['classes']] for row in rows])} per s, "
        f"unsent {medians([[one['unsent'] for one in row['classes']] for row in rows])} per s, {times(rows)}",
        flush=True,
    )


def times(runs: list[dict[str, Any]]) -> str:
    """Medians of how the node's event loop spent its time."""
    return ", ".join(f"{name} {statistics.median(run[name] for run in runs):.3f}" for name in ("asleep", "delayed"))
