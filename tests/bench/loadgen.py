"""``./dev bench loadgen``: the load generator beside wrk, on the same node, at the same rate.

The node has one core, the load another. First wrk without pause says how much the node can do, and loadgen without
pause how much one process of it can ask for, each with the same number of connections; the smaller is the saturation
of the pair. Then, round after round, wrk with pauses and loadgen from traces ask for a small file at half of that, and
what they say of the latency is compared: it should be the same. Last, one process of loadgen is given 8,000 requests
per second, which it has to send in time.

The two do not count alike. loadgen's latency ends when the answer came, by the kernel's word, and how long it lay there
until it was read is a figure of its own. wrk's ends when wrk read it; and for those that took more than twice the usual
time between two of a client, wrk adds others that it thinks it would have sent meanwhile. So both are printed: what
each of them says, and what wrk's own requests took until their answers came, which `wrk_stamps.c` notes within wrk in
the same rounds (where there is a C compiler), and which is the same thing as loadgen's figure.

Like is compared with like, twice:

- The same loop: as many clients of loadgen ask again after the same random pauses. wrk has them in whole milliseconds,
  so that what it sends comes in bursts; so does loadgen's event loop. Whatever differs then is the instrument's, but
  for this: one process of loadgen needs longer for a burst, in which the node meanwhile answers the first of it.
- The open loop, which is what loadgen is for: requests at random times, at the rate that wrk had. wrk counts from when
  a request was sent, and so does loadgen, besides; its own word is the latency from when it was due, of which its
  lateness is part. When the machine stands still, clients of a loop stand still with it and meet that once each, while
  here requests fall due all the time: the tail shows more of it, and that is no mistake.
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

from tests.bench import wrk, wrk_stamps
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
    sent_p50_ms: float  # since it was sent, as the tool itself says
    sent_p99_ms: float
    came_p50_ms: float | None  # since it was sent, until the answer came; None: nobody knows
    came_p99_ms: float | None
    read_late_p50_ms: float = 0.0  # how long the answer lay there
    read_late_p99_ms: float = 0.0
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
    closed: list[Seen]  # loadgen, in the same loop
    open: list[Seen]  # loadgen, with requests at random times

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
    of_loadgen = statistics.median(_closed_loop(url, options).rate_per_s for _ in range(3))
    found = Compared(of_node, of_loadgen, [], [], [])
    print(
        f"saturation {found.saturation_per_s:.0f}/s: {of_node:.0f}/s of the node (wrk, {options.connections} "
        f"connections), {of_loadgen:.0f}/s of one process of loadgen (as many)",
        flush=True,
    )
    script = scratch / "pauses.lua"
    stamping = wrk_stamps.build(scratch)
    for turn in range(options.rounds):
        # A client of wrk asks once per pause and answer.
        answer_ms = found.wrk[-1].sent_p50_ms if found.wrk else 0.3
        mean_ms = max(1.0, options.connections / (found.saturation_per_s / 2) * 1e3 - answer_ms)
        script.write_text(_PAUSES.format(mean_ms=mean_ms))
        load = wrk.load(url, connections=options.connections, seconds=options.seconds, script=script, stamping=stamping)
        found.wrk.append(_seen_by_wrk(load))
        found.closed.append(_closed_loop(url, options, "--pause", f"{mean_ms:.3f}ms"))
        found.open.append(_loadgen(url, _trace(url, load.rate_per_s, options, scratch, "poisson"), options))
        for name, seen in (("wrk", found.wrk), ("loadgen -c", found.closed), ("open loop", found.open)):
            print(f"round {turn + 1}/{options.rounds} {name:<10}{_shown(seen[-1])}", flush=True)
    return found


def _seen_by_wrk(load: wrk.Measured) -> Seen:
    stamps = load.stamps
    if stamps is None:
        return Seen(load.rate_per_s, load.p50_ms, load.p99_ms, None, None)
    return Seen(
        load.rate_per_s, load.p50_ms, load.p99_ms, stamps.came_p50_ms, stamps.came_p99_ms, stamps.lain_p50_ms,
        stamps.lain_p99_ms,
    )  # fmt: skip


def _closed_loop(url: str, options: argparse.Namespace, *pause: str) -> Seen:
    """One process whose clients ask again when they are answered."""
    return _measured(options, url, "-c", str(options.connections), "-z", f"{options.seconds}s", *pause)


def _trace(url: str, rate_per_s: float, options: argparse.Namespace, scratch: Path, kind: str) -> Path:
    trace = scratch / "trace.jsonl"
    _run("trace", "--rate", f"{rate_per_s:.1f}", "--duration", f"{options.seconds}s", "--arrivals", kind, "--mix",
         f"/{url.rpartition('/')[2]}", "--out", str(trace))  # fmt: skip
    return trace


def _loadgen(url: str, trace: Path, options: argparse.Namespace) -> Seen:
    words = ("--target", url.rpartition("/")[0], "--connections", str(options.connections))
    return _measured(options, str(trace), *words)


def _measured(options: argparse.Namespace, *words: str) -> Seen:
    """One process, on the client's core."""
    summary = json.loads(_run("run", *words, "--processes", "1", "--quiet", "--json"))
    whole = summary["all"]
    if whole["outcomes"]["accepted"] != whole["requests"]:
        raise SystemExit(f"bench: not all requests were served: {whole['outcomes']} {whole['failed_by_cause']}")
    sent, due = whole["answer_ms"]["percentiles"], whole["latency_ms"]["percentiles"]
    late = summary["lateness_ms"]["percentiles"]
    rate_per_s = whole["requests"] / max(summary["lasted_s"], options.seconds)
    cpu_us = summary["cpu_s"] / whole["requests"] * 1e6
    read_late = summary["read_lateness_ms"]["percentiles"]
    knows = summary["read_lateness_ms"]["count"] > 0
    return Seen(
        rate_per_s, sent["p50"], sent["p99"], sent["p50"] if knows else None, sent["p99"] if knows else None,
        read_late["p50"], read_late["p99"], due["p50"], due["p99"], late["p50"], late["p99"], cpu_us,
    )  # fmt: skip


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
    if not seen.cpu_us and seen.came_p50_ms is not None:
        own = f"  until it came {seen.came_p50_ms:.3f} and {seen.came_p99_ms:.3f} ms"
    if seen.came_p50_ms is not None:
        own += f"  read late {seen.read_late_p50_ms:.3f} and {seen.read_late_p99_ms:.3f} ms"
    if seen.cpu_us:
        own += f"  since due {seen.due_p50_ms:.3f} and {seen.due_p99_ms:.3f} ms"
        own += f"  late {seen.late_p50_ms:.3f} and {seen.late_p99_ms:.3f} ms  cpu {seen.cpu_us:.1f} us each"
    return f"{seen.rate_per_s:>8.0f}/s  p50 {seen.sent_p50_ms:6.3f} ms  p99 {seen.sent_p99_ms:7.3f} ms{own}"


def _median(seen: list[Seen], figure: str) -> float:
    return float(statistics.median(getattr(one, figure) for one in seen))


def _same(compared: Compared) -> list[dict[str, Any]]:
    verdicts: list[dict[str, Any]] = []
    print("\nmedians of the rounds, at half of saturation, latency since sent")
    goal = f"within {SAME_RATIO:.0%} or {SAME_MS} ms"
    counted = {"each by its own word": "sent", "both until the answer came": "came"}
    if any(seen.came_p99_ms is None for seen in (*compared.wrk, *compared.closed, *compared.open)):
        print(
            "nobody knows here when answers came (needs Linux and a C compiler): wrk's figures are until it read them"
        )
        del counted["both until the answer came"]
    for how, kind in counted.items():
        for name, of_loadgen in (("the same loop", compared.closed), ("open loop", compared.open)):
            for percent in ("p50", "p99"):
                theirs, ours = (_median(of, f"{kind}_{percent}_ms") for of in (compared.wrk, of_loadgen))
                met = abs(ours - theirs) <= max(SAME_RATIO * theirs, SAME_MS)
                due = _median(of_loadgen, f"due_{percent}_ms")
                shown = f"; {due:.3f} ms since due" if name == "open loop" else ""
                print(f"{how}, {name}, {percent}: wrk {theirs:.3f} ms, loadgen {ours:.3f} ms "
                      f"({ours - theirs:+.3f}{shown})  goal {goal}  {_VERDICT[met]}")  # fmt: skip
                figure = f"{how}, {name}, {percent} since sent"
                verdicts.append({"figure": figure, "wrk_ms": theirs, "loadgen_ms": ours, "goal": goal, "met": met})
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
        "loadgen_closed": [seen._asdict() for seen in compared.closed] if compared else None,
        "loadgen_open": [seen._asdict() for seen in compared.open] if compared else None,
        "sustained": [seen._asdict() for seen in sustained],
        "verdicts": verdicts,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=2) + "\n")
    print(f"\nwritten to {options.out}")
