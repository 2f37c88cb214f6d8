"""``./dev bench http``: static files, qosweb compared with nginx and aiohttp's ``add_static``.

All servers run at the same time, pinned to the same core. The load (wrk, 64 connections) runs on another core and
targets one server after the other, round after round, so that disturbances of the machine affect all servers. qosweb
and nginx write their access logs. The figure of a server is the median over the rounds; the result is the ratio of two
figures of one run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.bench import wrk
from tests.bench.contenders import available, can_pin, running

SIZES = {"1 KiB": 1 << 10, "16 KiB": 16 << 10, "128 KiB": 128 << 10}
GOALS = (  # peer, size, figure, at least (or, for latency, at most)
    ("nginx", "1 KiB", "rate", 0.8),
    ("nginx", "16 KiB", "rate", 0.8),
    ("nginx", "128 KiB", "rate", 1.0),
    ("add_static", "1 KiB", "rate", 15.0),
    ("nginx", "1 KiB", "p99", 2.0),
    ("nginx", "16 KiB", "p99", 2.0),
    ("nginx", "128 KiB", "p99", 2.0),
    ("nginx", "1 KiB", "cpu", 1.25),
    ("nginx", "16 KiB", "cpu", 1.25),
    ("nginx", "128 KiB", "cpu", 1.0),
)
GOALS_DISTINCT = (  # if every head is different: rates are limited by the load's core
    ("nginx", "1 KiB", "cpu", 1 / 0.8),
    ("nginx", "16 KiB", "cpu", 1 / 0.75),
    ("nginx", "128 KiB", "cpu", 1 / 0.95),
    ("nginx", "1 KiB", "p99", 2.0),
    ("nginx", "16 KiB", "p99", 2.0),
    ("nginx", "128 KiB", "p99", 2.0),
)


class Figures(NamedTuple):
    """Figures of one measurement."""

    rate: float  # requests per second
    p99: float  # milliseconds
    cpu: float  # microseconds of the server's processor time per request


_VERDICT = {True: "met", False: "MISSED"}

Results = dict[tuple[str, str], list[Figures]]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench http", description=__doc__)
    parser.add_argument("--seconds", type=int, default=3, help="duration of a measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--distinct", action="store_true", help="make every request head different")
    parser.add_argument("--only", help="comma-separated servers (default: all that are installed)")
    parser.add_argument("--out", type=Path, default=Path("bench-results/http.json"))
    options = parser.parse_args(arguments)
    wrk.require()
    names = options.only.split(",") if options.only else available()

    results: Results = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        root = Path(folder) / "site"
        root.mkdir()
        for name, size in SIZES.items():
            (root / _file_of(name)).write_bytes(os.urandom(size))
        script = Path(folder) / "distinct.lua"
        script.write_text(wrk.DISTINCT_HEADS)
        servers = []
        for name in names:
            scratch = Path(folder) / name
            scratch.mkdir()
            servers.append(stack.enter_context(running(name, root, scratch)))
        for turn in range(options.rounds):
            for size_name in SIZES:
                for server in servers:
                    url = f"http://127.0.0.1:{server.port}/{_file_of(size_name)}"
                    wrk.load(url, connections=options.connections, seconds=1)  # warm
                    cpu_before_s = cpu_s(server.pid)
                    load = wrk.load(
                        url,
                        connections=options.connections,
                        seconds=options.seconds,
                        script=script if options.distinct else None,
                    )
                    cpu_us = (cpu_s(server.pid) - cpu_before_s) / load.requests * 1e6
                    measured = Figures(load.rate_per_s, load.p99_ms, cpu_us)
                    results[server.name, size_name].append(measured)
                    print(
                        f"round {turn + 1}/{options.rounds} {size_name:>7} {server.name:<10} "
                        f"{measured.rate:>9.0f}/s  p99 {measured.p99:6.2f} ms  cpu {measured.cpu:6.1f} us each",
                        flush=True,
                    )
    _report(names, results)
    verdicts = _verdicts(names, results, GOALS_DISTINCT if options.distinct else GOALS)
    _save(options, {server.name: server.version for server in servers}, results, verdicts)
    return 0


def _file_of(size_name: str) -> str:
    return size_name.replace(" ", "") + ".html"


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _median(results: Results, name: str, size: str, figure: str) -> float:
    values: list[float] = [getattr(figures, figure) for figures in results[name, size]]
    return statistics.median(values)


def _report(names: list[str], results: Results) -> None:
    print(f"\n{'medians':<10}" + "".join(f"{size:>38}" for size in SIZES))
    for name in names:
        cells = [
            "{:.0f}/s  p99 {:.2f} ms  cpu {:.1f} us".format(
                *(_median(results, name, size, figure) for figure in Figures._fields)
            )
            for size in SIZES
        ]
        print(f"{name:<10}" + "".join(f"{cell:>38}" for cell in cells))
    if not can_pin():
        print("one core only: the load generator and the servers share it, which blurs the ratios")


def _verdicts(
    names: list[str], results: Results, goals: tuple[tuple[str, str, str, float], ...]
) -> list[dict[str, object]]:
    verdicts: list[dict[str, object]] = []
    print()
    for peer, size, figure, goal in goals:
        if peer not in names or "qosweb" not in names:
            continue
        ratio = _median(results, "qosweb", size, figure) / _median(results, peer, size, figure)
        met = ratio >= goal if figure == "rate" else ratio <= goal
        sign = ">=" if figure == "rate" else "<="
        print(f"qosweb / {peer:<10} {size:>7} {figure:<4} {ratio:6.2f}  goal {sign} {goal:<4.3g} {_VERDICT[met]}")
        verdicts.append(
            {"peer": peer, "size": size, "figure": figure, "ratio": round(ratio, 3), "goal": goal, "met": met}
        )
    if "nginx" not in names:
        print("nginx is not installed: nothing to compare with but add_static (apt-get install nginx)")
    return verdicts


def _save(
    options: argparse.Namespace, versions: dict[str, str], results: Results, verdicts: list[dict[str, object]]
) -> None:
    document = {
        "versions": {**versions, "python": platform.python_version()},
        "machine": {"cores": os.cpu_count(), "system": platform.platform()},
        "options": {
            "seconds": options.seconds,
            "rounds": options.rounds,
            "connections": options.connections,
            "distinct": options.distinct,
        },
        "rates_per_s": {f"{name} {size}": [m.rate for m in found] for (name, size), found in results.items()},
        "p99_ms": {f"{name} {size}": [m.p99 for m in found] for (name, size), found in results.items()},
        "cpu_us_per_request": {f"{name} {size}": [m.cpu for m in found] for (name, size), found in results.items()},
        "ratios": verdicts,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=2) + "\n")
    print(f"\nwritten to {options.out}")
