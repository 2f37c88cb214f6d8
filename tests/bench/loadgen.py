"""``./dev bench loadgen``: the load generator beside wrk, on the same node, at the same rate.

The node has one core, the load another. First wrk without pause says how much the node can do, and loadgen without
pause how much one process of it can ask for, each with the same number of connections; the smaller is the saturation
of the pair. Then, round after round, wrk with pauses and loadgen from traces ask for a small file at half of that, and
what they say of the latency is compared: it should be the same. Last, one process of loadgen is given 8,000 requests
per second, which it has to send in time.

Like is compared with like:

- wrk's pauses are in whole milliseconds (it has no others), so that what it sends comes in bursts, one a millisecond,
  and the requests of a burst wait for each other in the node. loadgen has requests at random times at the rate that wrk
  had, put off to the next whole millisecond. The same without putting them off is measured too, for itself: that is how
  requests come to a server, and what loadgen is for.
- wrk counts from when a request was sent. So does loadgen, besides; its own word is the latency from when it was due,
  of which its own lateness is part, and stands beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from loadgen.trace.files import read_trace, write_trace, writing
from tests.bench import wrk
from tests.bench.contenders import CLIENT_CORE, can_pin, running, version_of

SUSTAINED_PER_S = 8000
SAME_RATIO, SAME_MS = 0.10, 0.2
LATE_P99_MAX_MS = 5.0
BUSY = 0.5  # load average before anything was started

_PAUSES = """
local mean_ms = {mean_ms}
function delay()
    return math.floor(-math.log(1 - math.random()) * mean_ms + 0.5)
end
"""
_VERDICT = {True: "met", False: "MISSED"}


class Seen(NamedTuple):
    """What one of the two says of one round."""

    rate_per_s: float
    sent_p50_ms: float  # since it was sent
    sent_p99_ms: float
    due_p50_ms: float = 0.0  # since it was due; wrk's never are
    due_p99_ms: float = 0.0
    late_p50_ms: float = 0.0
    late_p99_ms: float = 0.0
    cpu_us: float = 0.0  # of the generator, per request


class Compared(NamedTuple):
    """Of all rounds."""

    of_node_per_s: float  # without pause, by wrk
    of_loadgen_per_s: float  # without pause, by one process of loadgen
    wrk: list[Seen]
    alike: list[Seen]  # loadgen, with requests as wrk sends them
    random: list[Seen]  # loadgen, with requests at random times

    @property
    def saturation_per_s(self) -> float:
        return min(self.of_node_per_s, self.of_loadgen_per_s)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench loadgen", description=__doc__)
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64, help="of each of the two")
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
        with running("qosweb", root, scratch) as server:
            url = f"http://127.0.0.1:{server.port}/page.html"
            compared = _compare(options, url, scratch) if has_wrk else None
            sustained = [
                _loadgen(url, _trace(url, SUSTAINED_PER_S, options, scratch, "constant"), options)
                for _ in range(options.rounds)
            ]
    if compared is None:
        print(
            "wrk is not installed (apt-get install wrk): loadgen is compared with nothing, its speed is measured only"
        )
    verdicts = [*(_same(compared) if compared else []), *_fast_enough(sustained)]
    if not can_pin():
        print("one core only: the load and the node share it, and nothing here can be met")
    _save(options, busy, compared, sustained, verdicts)
    return 0


def _compare(options: argparse.Namespace, url: str, scratch: Path) -> Compared:
    wrk.load(url, connections=options.connections, seconds=1)  # warm
    of_node = statistics.median(
        wrk.load(url, connections=options.connections, seconds=options.seconds).rate_per_s for _ in range(3)
    )
    of_loadgen = statistics.median(_closed_loop(url, options) for _ in range(3))
    found = Compared(of_node, of_loadgen, [], [], [])
    print(
        f"saturation {found.saturation_per_s:.0f}/s: {of_node:.0f}/s of the node (wrk, {options.connections} "
        f"connections), {of_loadgen:.0f}/s of one process of loadgen (as many)",
        flush=True,
    )
    script = scratch / "pauses.lua"
    for turn in range(options.rounds):
        # A client of wrk asks once per pause and answer.
        answer_ms = found.wrk[-1].sent_p50_ms if found.wrk else 0.3
        mean_ms = max(1.0, options.connections / (found.saturation_per_s / 2) * 1e3 - answer_ms)
        script.write_text(_PAUSES.format(mean_ms=mean_ms))
        load = wrk.load(url, connections=options.connections, seconds=options.seconds, script=script)
        found.wrk.append(Seen(load.rate_per_s, load.p50_ms, load.p99_ms))
        trace = _trace(url, load.rate_per_s, options, scratch, "poisson")
        found.random.append(_loadgen(url, trace, options))
        found.alike.append(_loadgen(url, _in_whole_ms(trace), options))
        for name, seen in (("wrk", found.wrk), ("loadgen", found.alike), ("  at random", found.random)):
            print(f"round {turn + 1}/{options.rounds} {name:<12}{_shown(seen[-1])}", flush=True)
    return found


def _closed_loop(url: str, options: argparse.Namespace) -> float:
    """What one process can do if it asks again as soon as it is answered."""
    words = ("-c", str(options.connections), "-z", f"{options.seconds}s", "--processes", "1", "--quiet", "--json")
    summary = json.loads(_run("run", url, *words))
    return float(summary["all"]["requests"] / summary["lasted_s"])


def _trace(url: str, rate_per_s: float, options: argparse.Namespace, scratch: Path, kind: str) -> Path:
    trace = scratch / "trace.jsonl"
    _run("trace", "--rate", f"{rate_per_s:.1f}", "--duration", f"{options.seconds}s", "--arrivals", kind, "--mix",
         f"/{url.rpartition('/')[2]}", "--out", str(trace))  # fmt: skip
    return trace


def _in_whole_ms(trace: Path) -> Path:
    """The same requests, each at the end of its millisecond."""
    made = trace.with_name("trace-ms.jsonl")
    with writing(str(made)) as file:
        write_trace(file, (replace(request, t=math.ceil(request.t * 1e3) / 1e3) for request in read_trace(str(trace))))
    return made


def _loadgen(url: str, trace: Path, options: argparse.Namespace) -> Seen:
    """One process, on the client's core."""
    words = ("--target", url.rpartition("/")[0], "--connections", str(options.connections), "--processes", "1")
    summary = json.loads(_run("run", str(trace), *words, "--quiet", "--json"))
    whole = summary["all"]
    if whole["outcomes"]["accepted"] != whole["requests"]:
        raise SystemExit(f"bench: not all requests were served: {whole['outcomes']} {whole['failed_by_cause']}")
    sent, due = whole["answer_ms"]["percentiles"], whole["latency_ms"]["percentiles"]
    late = summary["lateness_ms"]["percentiles"]
    rate_per_s = whole["requests"] / max(summary["lasted_s"], options.seconds)
    cpu_us = summary["cpu_s"] / whole["requests"] * 1e6
    return Seen(rate_per_s, sent["p50"], sent["p99"], due["p50"], due["p99"], late["p50"], late["p99"], cpu_us)


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "loadgen.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=(lambda: os.sched_setaffinity(0, {CLIENT_CORE})) if can_pin() else None,
    )
    if done.returncode:
        raise SystemExit(f"bench: loadgen ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _shown(seen: Seen) -> str:
    own = ""
    if seen.cpu_us:
        own = f"  since due {seen.due_p50_ms:.3f} and {seen.due_p99_ms:.3f} ms"
        own += f"  late {seen.late_p50_ms:.3f} and {seen.late_p99_ms:.3f} ms  cpu {seen.cpu_us:.1f} us each"
    return f"{seen.rate_per_s:>8.0f}/s  p50 {seen.sent_p50_ms:6.3f} ms  p99 {seen.sent_p99_ms:7.3f} ms{own}"


def _median(seen: list[Seen], figure: str) -> float:
    return float(statistics.median(getattr(one, figure) for one in seen))


def _same(compared: Compared) -> list[dict[str, Any]]:
    verdicts: list[dict[str, Any]] = []
    print("\nmedians of the rounds, at half of saturation, requests in whole milliseconds")
    goal = f"within {SAME_RATIO:.0%} or {SAME_MS} ms"
    for percent in ("p50", "p99"):
        theirs, ours = (_median(of, f"sent_{percent}_ms") for of in (compared.wrk, compared.alike))
        met = abs(ours - theirs) <= max(SAME_RATIO * theirs, SAME_MS)
        print(
            f"{percent} since sent: wrk {theirs:.3f} ms, loadgen {ours:.3f} ms, {ours - theirs:+.3f} ms  goal {goal}  "
            f"{_VERDICT[met]}"
        )
        due, random = (_median(of, f"due_{percent}_ms") for of in (compared.alike, compared.random))
        print(f"    since due: loadgen {due:.3f} ms; with requests at random times {random:.3f} ms")
        verdicts.append(
            {
                "figure": f"{percent} since sent",
                "wrk_ms": theirs,
                "loadgen_ms": ours,
                "loadgen_since_due_ms": due,
                "loadgen_at_random_since_due_ms": random,
                "goal": goal,
                "met": met,
            }
        )
    return verdicts


def _fast_enough(sustained: list[Seen]) -> list[dict[str, Any]]:
    print(f"\none process at {SUSTAINED_PER_S}/s")
    for seen in sustained:
        print(_shown(seen))
    rate, late_ms = _median(sustained, "rate_per_s"), _median(sustained, "late_p99_ms")
    met = rate >= 0.99 * SUSTAINED_PER_S and late_ms <= LATE_P99_MAX_MS
    goal = f"{SUSTAINED_PER_S}/s with p99 of lateness <= {LATE_P99_MAX_MS} ms"
    print(f"medians: {rate:.0f}/s, late p99 {late_ms:.3f} ms  goal {goal}  {_VERDICT[met]}")
    return [{"figure": "sustained", "rate_per_s": rate, "late_p99_ms": late_ms, "goal": goal, "met": met}]


def _save(
    options: argparse.Namespace,
    busy: float,
    compared: Compared | None,
    sustained: list[Seen],
    verdicts: list[dict[str, Any]],
) -> None:
    document = {
        "versions": {"qosweb": version_of("qosweb"), "python": platform.python_version()},
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "load_before": busy},
        "options": {"seconds": options.seconds, "rounds": options.rounds, "connections": options.connections},
        "saturation_per_s": {"node": compared.of_node_per_s, "loadgen": compared.of_loadgen_per_s}
        if compared
        else None,
        "wrk": [seen._asdict() for seen in compared.wrk] if compared else None,
        "loadgen": [seen._asdict() for seen in compared.alike] if compared else None,
        "loadgen_at_random": [seen._asdict() for seen in compared.random] if compared else None,
        "sustained": [seen._asdict() for seen in sustained],
        "verdicts": verdicts,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=2) + "\n")
    print(f"\nwritten to {options.out}")
