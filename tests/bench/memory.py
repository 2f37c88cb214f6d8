"""``./dev bench memory``: memory of a node after a hundred thousand requests, and after a million more."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import psutil

from tests.bench import wrk
from tests.bench.contenders import running

GROWTH_MAX = 4 << 20


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench memory", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    wrk.require()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "site"
        root.mkdir()
        (root / "page.html").write_bytes(os.urandom(1 << 10))
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        with running("qosweb", root, scratch) as server:
            process = psutil.Process(server.pid)
            _load(server.port, options.requests // 10)
            before = process.memory_info().rss
            sent = _load(server.port, options.requests)
            after = process.memory_info().rss
    grown = after - before
    print(f"resident {before / 2**20:.1f} MiB, {sent} requests later {after / 2**20:.1f} MiB: {grown / 1024:+.0f} KiB")
    print("flat" if grown <= GROWTH_MAX else f"NOT flat: more than {GROWTH_MAX >> 20} MiB")
    return 0 if grown <= GROWTH_MAX else 1


def _load(port: int, requests: int) -> int:
    sent = 0
    while sent < requests:
        sent += wrk.load(f"http://127.0.0.1:{port}/page.html", connections=64, seconds=2).requests
    return sent
