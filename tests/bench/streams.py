"""``./dev bench streams``: time to the first event of an event stream through qosweb, over that of the direct server.

Both are asked in turn, each time on a new connection, as browsers do. The time is from the request to the first byte of
an event. The goal is that p99 through qosweb is at most GOAL_MS above p99 without it, in the same run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from time import perf_counter

from tests.support.application import Application
from tests.support.honest import quantile
from tests.support.misbehaving import free_port
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection

GOAL_MS = 2.0
SPEC = "</events>.server_resource > 10%\n"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench streams", description=__doc__)
    parser.add_argument("--streams", type=int, default=1000, help="of each kind (default: 1000)")
    parser.add_argument("--out", type=Path, default=Path("bench-results/streams.json"))
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, Application(free_port()) as server:
        spec = Path(folder) / "site.webqos"
        spec.write_text(SPEC)
        with RunningNode(None, Path(folder), "--upstream", server.url, "--spec", str(spec)) as node:
            ports = {"direct": server.port, "qosweb": node.port}
            found: dict[str, list[float]] = {name: [] for name in ports}
            for _ in range(options.streams):
                for name, port in ports.items():
                    found[name].append(first_event_ms(port))
    for times in found.values():
        times.sort()
    added = {part: quantile(found["qosweb"], part) - quantile(found["direct"], part) for part in (0.5, 0.9, 0.99)}
    for name, times in found.items():
        print(f"{name:<7}", *(f"p{100 * part:g} {quantile(times, part):6.2f} ms" for part in added))
    print("added  ", *(f"p{100 * part:g} {ms:6.2f} ms" for part, ms in added.items()))
    is_good = added[0.99] <= GOAL_MS
    print(f"goal: p99 at most {GOAL_MS:g} ms more: {'met' if is_good else 'MISSED'}")
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps({"added_ms": added, "times_ms": found}))
    return 0 if is_good else 1


def first_event_ms(port: int) -> float:
    with RawConnection(port) as connection:
        began = perf_counter()
        connection.send(b"GET /events HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n")
        connection._read_until(b"data: ")
        return 1000 * (perf_counter() - began)
