"""``./dev bench loadgen``: the load generator compared with wrk, on the same node, at the same rate.

The node has one core, the load another. First, wrk without pauses measures the capacity of the node, and loadgen
without pauses the capacity of one loadgen process, each with the same number of connections. The smaller is the
saturation of the pair. Then, in many short rounds and in turns, wrk with pauses, loadgen with pauses and loadgen from a
trace request a small file at half of that rate, and their latencies are compared: they should be equal. Last, one
loadgen process has to send 8,000 requests per second on time.

There are two questions, each with its own verdict (`loadgen_verdicts.py`):

- Does a tool report the true latency of the requests that it sent? The kernel's packet timestamps on the loopback
  device give the true latency (`wire.py`), in the same round, whatever the machine did meanwhile.
- Do both tools report the same? That also depends on how each tool loads the server, and on the machine, which may
  stall in one round and not in the next (`calm.py`).

The tools measure differently. loadgen's latency ends when the response arrived, by the kernel's timestamp; the time
until loadgen read it is a separate figure. wrk's latency ends when wrk read the response. For responses that took more
than twice the usual interval of a client, wrk adds samples of requests that it would have sent meanwhile. So two
comparisons are printed: the reports of both tools, and the wire latencies of the requests of each.

The tools also load a server differently, although the two loops are as similar as possible:

- The closed loop: the same number of clients send again after the same random pauses, in whole milliseconds, so that
  requests come in bursts. The pauses of each tool are adjusted by its earlier rounds, so that both have the same rate.
  One loadgen process needs longer for a burst, and the node meanwhile answers its first requests.
- The open loop, the purpose of loadgen: requests at random times. wrk counts from when a request was sent. loadgen does
  this as well, but its main figure is the latency from when the request was due, which includes its lateness. When the
  machine stalls, the clients of a closed loop stall with it and see the stall once each. In the open loop requests
  continue to fall due, are sent in a burst afterwards, and queue in the server. The tail shows this, and so does the
  wire.

Exit code 1 if a goal is missed, by the rounds that count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench import wrk
from tests.bench.calm import Calm
from tests.bench.contenders import can_pin, running, version_of
from tests.bench.loadgen_rounds import CLOSED, OPEN, WRK, Rounds, Seen, shown
from tests.bench.loadgen_verdicts import VERDICT, judged, missed

SUSTAINED_PER_S = 8000
SUSTAINED_S, SUSTAINED_ROUNDS = 5, 5
LATE_P99_MAX_MS = 5.0
BUSY = 0.5  # load average before anything was started


class Compared(NamedTuple):
    of_node_per_s: float  # without pause, by wrk
    of_loadgen_per_s: float  # without pause, by one process of loadgen
    rounds: dict[str, list[Seen]]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench loadgen", description=__doc__)
    parser.add_argument("--seconds", type=int, default=2, help="duration of a measurement in a round")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--connections", type=int, default=64, help="connections of each tool")
    parser.add_argument("--out", type=Path, default=Path("bench-results/loadgen.json"))
    options = parser.parse_args(arguments)
    has_wrk = shutil.which("wrk") is not None
    if (busy := os.getloadavg()[0]) > BUSY:
        print(
            f"this machine has other work (load average {busy:.1f}): times that follow are partly of that", flush=True
        )
    with tempfile.TemporaryDirectory() as folder:
        root, scratch = Path(folder) / "site", Path(folder) / "scratch"
        root.mkdir()
        scratch.mkdir()
        (root / "page.html").write_bytes(os.urandom(1 << 10))
        with running("qosweb", root, scratch) as server, Calm(server.pid) as calm:
            url = f"http://127.0.0.1:{server.port}/page.html"
            rounds = Rounds(url, options.connections, scratch, calm)
            compared = _compare(options, url, rounds) if has_wrk else None
            steady = rounds.trace(SUSTAINED_PER_S, SUSTAINED_S, "constant")
            sustained = [rounds.from_trace(steady, SUSTAINED_S) for _ in range(SUSTAINED_ROUNDS)]
    if compared is None:
        print(
            "wrk is not installed (apt-get install wrk): loadgen is compared with nothing, its speed is measured only"
        )
    verdicts = [*(judged(compared.rounds) if compared else []), *_fast_enough(sustained)]
    if not can_pin():
        print("one core only: the load and the node share it, and nothing here can be met")
    _save(options, busy, compared, sustained, verdicts)
    if failed := missed(verdicts):
        print(f"goals missed: {'; '.join(failed)}")
    return 1 if failed else 0


def _compare(options: argparse.Namespace, url: str, rounds: Rounds) -> Compared:
    wrk.load(url, connections=options.connections, seconds=1)  # warm
    of_node = statistics.median(
        wrk.load(url, connections=options.connections, seconds=options.seconds).rate_per_s for _ in range(3)
    )
    of_loadgen = statistics.median(rounds.without_pause(options.seconds) for _ in range(3))
    found: dict[str, list[Seen]] = {WRK: [], CLOSED: [], OPEN: []}
    half_per_s = min(of_node, of_loadgen) / 2
    print(
        f"saturation: {of_node:.0f}/s of the node (wrk, {options.connections} connections), {of_loadgen:.0f}/s of one "
        f"process of loadgen (as many); half of the smaller is {half_per_s:.0f}/s; latencies in ms, p50 before p99",
        flush=True,
    )
    trace = rounds.trace(half_per_s, options.seconds, "poisson")
    for name in (WRK, CLOSED):
        rounds.one(name, half_per_s, options.seconds, trace)  # to learn which pauses give that rate
    for turn in range(options.rounds):
        for name in (WRK, CLOSED, OPEN) if turn % 2 else (OPEN, CLOSED, WRK):
            seen = rounds.one(name, half_per_s, options.seconds, trace)
            found[name].append(seen)
            print(f"{turn + 1:>3} {name:<10}{shown(seen)}", flush=True)
    return Compared(of_node, of_loadgen, found)


def _fast_enough(sustained: list[Seen]) -> list[dict[str, Any]]:
    print(f"\none process at {SUSTAINED_PER_S}/s")
    for seen in sustained:
        print(shown(seen))
    rate = statistics.median(seen.rate_per_s for seen in sustained)
    late_ms = statistics.median(seen.late_p99_ms for seen in sustained)
    met = rate >= 0.99 * SUSTAINED_PER_S and late_ms <= LATE_P99_MAX_MS
    goal = f"{SUSTAINED_PER_S}/s with p99 of lateness <= {LATE_P99_MAX_MS} ms"
    print(f"medians: {rate:.0f}/s, late p99 {late_ms:.3f} ms  goal {goal}  {VERDICT[met]}")
    return [{"figure": "sustained", "rate_per_s": rate, "late_p99_ms": late_ms, "goal": goal, "met": met}]


def _save(
    options: argparse.Namespace,
    busy: float,
    compared: Compared | None,
    sustained: list[Seen],
    verdicts: list[dict[str, Any]],
) -> None:
    document = {
        "versions": {
            "qosweb": version_of("qosweb"),
            "wrk": wrk.version() or "not installed",
            "python": platform.python_version(),
        },
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "load_before": busy},
        "options": {"seconds": options.seconds, "rounds": options.rounds, "connections": options.connections},
        "saturation_per_s": {"node": compared.of_node_per_s, "loadgen": compared.of_loadgen_per_s}
        if compared
        else None,
        "rounds": {name: [one._asdict() for one in seen] for name, seen in compared.rounds.items()}
        if compared
        else None,
        "sustained": [seen._asdict() for seen in sustained],
        "verdicts": verdicts,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=2) + "\n")
    print(f"\nwritten to {options.out}")
