"""``./dev bench loadgen``: the load generator beside wrk, on the same node, at the same rate.

The node has one core, the load another. First wrk without pause says how much the node can do, and loadgen without
pause how much one process of it can ask for; the smaller is the saturation of the pair. Then, round after round, wrk
with pauses and loadgen from a trace ask for a small file at half of that, and what they say of the latency is compared:
it should be the same. wrk's pauses are random and in whole milliseconds (it has no others), so
that its rate is approximate; loadgen is given the rate that wrk had. Last, one process of loadgen is given 8,000
requests per second, which it has to send in time.

wrk counts from when a request was sent, loadgen from when it was due: its own lateness is part of what it says, and is
shown apart.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

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
    p50_ms: float
    p99_ms: float
    late_p99_ms: float = 0.0
    sent_p50_ms: float = 0.0  # loadgen's latency as wrk counts it
    sent_p99_ms: float = 0.0
    cpu_us: float = 0.0  # of the generator, per request


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench loadgen", description=__doc__)
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64, help="of wrk")
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
                _loadgen(url, SUSTAINED_PER_S, options.seconds, scratch, kind="constant") for _ in range(options.rounds)
            ]
    if compared is None:
        print(
            "wrk is not installed (apt-get install wrk): loadgen is compared with nothing, its speed is measured only"
        )
    verdicts = [*(_same(*compared) if compared else []), *_fast_enough(sustained)]
    if not can_pin():
        print("one core only: the load and the node share it, and nothing here can be met")
    _save(options, busy, compared, sustained, verdicts)
    return 0


def _compare(options: argparse.Namespace, url: str, scratch: Path) -> tuple[list[Seen], list[Seen]]:
    wrk.load(url, connections=options.connections, seconds=1)  # warm
    of_node = statistics.median(
        wrk.load(url, connections=options.connections, seconds=options.seconds).rate_per_s for _ in range(3)
    )
    of_loadgen = statistics.median(_closed_loop(url, options) for _ in range(3))
    saturation = min(of_node, of_loadgen)
    print(
        f"saturation {saturation:.0f}/s: {of_node:.0f}/s of the node (wrk, {options.connections} connections), "
        f"{of_loadgen:.0f}/s of one process of loadgen (as many clients)",
        flush=True,
    )
    script = scratch / "pauses.lua"
    theirs: list[Seen] = []
    ours: list[Seen] = []
    for turn in range(options.rounds):
        # A client of wrk asks once per pause and answer.
        mean_ms = max(1.0, options.connections / (saturation / 2) * 1e3 - (theirs[-1].p50_ms if theirs else 0.5))
        script.write_text(_PAUSES.format(mean_ms=mean_ms))
        load = wrk.load(url, connections=options.connections, seconds=options.seconds, script=script)
        theirs.append(Seen(load.rate_per_s, load.p50_ms, load.p99_ms))
        ours.append(_loadgen(url, load.rate_per_s, options.seconds, scratch, kind="poisson"))
        for name, seen in (("wrk", theirs[-1]), ("loadgen", ours[-1])):
            print(f"round {turn + 1}/{options.rounds} {name:<8}{_shown(seen)}", flush=True)
    return theirs, ours


def _closed_loop(url: str, options: argparse.Namespace) -> float:
    """What one process can do if it asks again as soon as it is answered."""
    words = ("-c", str(options.connections), "-z", f"{options.seconds}s", "--processes", "1", "--quiet", "--json")
    summary = json.loads(_run("run", url, *words))
    return float(summary["all"]["requests"] / summary["lasted_s"])


def _loadgen(url: str, rate_per_s: float, seconds: int, scratch: Path, kind: str) -> Seen:
    """One process, on the client's core."""
    base, _, page = url.rpartition("/")
    trace = scratch / "trace.jsonl"
    _run("trace", "--rate", f"{rate_per_s:.1f}", "--duration", f"{seconds}s", "--arrivals", kind, "--mix", f"/{page}",
         "--out", str(trace))  # fmt: skip
    summary = json.loads(_run("run", str(trace), "--target", base, "--processes", "1", "--quiet", "--json"))
    whole = summary["all"]
    if whole["outcomes"]["accepted"] != whole["requests"]:
        raise SystemExit(f"bench: not all requests were served: {whole['outcomes']} {whole['failed_by_cause']}")
    latency = whole["latency_ms"]["percentiles"]
    return Seen(
        whole["requests"] / max(summary["lasted_s"], seconds),
        latency["p50"],
        latency["p99"],
        summary["lateness_ms"]["percentiles"]["p99"],
        whole["answer_ms"]["percentiles"]["p50"],
        whole["answer_ms"]["percentiles"]["p99"],
        summary["cpu_s"] / whole["requests"] * 1e6,
    )


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
        own = f"  since sent {seen.sent_p50_ms:.3f} and {seen.sent_p99_ms:.3f} ms  late p99 {seen.late_p99_ms:.3f} ms"
        own += f"  cpu {seen.cpu_us:.1f} us each"
    return f"{seen.rate_per_s:>9.0f}/s  p50 {seen.p50_ms:7.3f} ms  p99 {seen.p99_ms:7.3f} ms{own}"


def _median(seen: list[Seen], figure: str) -> float:
    return float(statistics.median(getattr(one, figure) for one in seen))


def _same(theirs: list[Seen], ours: list[Seen]) -> list[dict[str, Any]]:
    verdicts: list[dict[str, Any]] = []
    print("\nmedians at half of saturation")
    for figure in ("p50_ms", "p99_ms"):
        a, b = _median(theirs, figure), _median(ours, figure)
        met = abs(b - a) <= max(SAME_RATIO * a, SAME_MS)
        goal = f"within {SAME_RATIO:.0%} or {SAME_MS} ms"
        print(f"{figure[:3]}: wrk {a:.3f} ms, loadgen {b:.3f} ms, ratio {b / a:.2f}  goal {goal}  {_VERDICT[met]}")
        sent = _median(ours, f"sent_{figure}")
        print(f"     since it was sent, as wrk counts: loadgen {sent:.3f} ms, ratio {sent / a:.2f}")
        verdicts.append(
            {
                "figure": figure,
                "wrk": a,
                "loadgen_since_sent": sent,
                "loadgen": b,
                "ratio": round(b / a, 3),
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
    compared: tuple[list[Seen], list[Seen]] | None,
    sustained: list[Seen],
    verdicts: list[dict[str, Any]],
) -> None:
    document = {
        "versions": {"qosweb": version_of("qosweb"), "python": platform.python_version()},
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "load_before": busy},
        "options": {"seconds": options.seconds, "rounds": options.rounds, "connections": options.connections},
        "wrk": [seen._asdict() for seen in compared[0]] if compared else None,
        "loadgen": [seen._asdict() for seen in compared[1]] if compared else None,
        "sustained": [seen._asdict() for seen in sustained],
        "verdicts": verdicts,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=2) + "\n")
    print(f"\nwritten to {options.out}")
