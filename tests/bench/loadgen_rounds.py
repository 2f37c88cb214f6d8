"""One round of `./dev bench loadgen`: wrk, loadgen in the same closed loop, and loadgen in an open loop."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from tests.bench import wrk
from tests.bench.contenders import CLIENT_CORE, can_pin
from tests.bench.wire import Wire, may_listen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.bench.calm import Calm

WRK, CLOSED, OPEN = "wrk", "same loop", "open loop"
_PACKETS_MAX_PER_S = 120_000  # of half of saturation; if there are more, the wire has nothing to say
_PAUSE_MIN_MS = 0.5

_PAUSES = """
local mean_ms = {mean_ms}
function delay()
    return math.floor(-math.log(1 - math.random()) * mean_ms + 0.5)
end
"""


class Seen(NamedTuple):
    """The figures of one tool in one round, and independent measurements of the same round."""

    rate_per_s: float
    sent_p50_ms: float  # since it was sent, as the tool itself says
    sent_p99_ms: float
    read_late_p50_ms: float = 0.0  # how long the answer lay there
    read_late_p99_ms: float = 0.0
    due_p50_ms: float = 0.0  # since it was due; wrk's never are
    due_p99_ms: float = 0.0
    late_p50_ms: float = 0.0
    late_p99_ms: float = 0.0
    cpu_us: float = 0.0  # of the generator, per request
    wire_p50_ms: float | None = None  # the truth; None: nobody may listen
    wire_p99_ms: float | None = None
    ahead_p99: float | None = None  # requests on their way when another one passed
    stood_still: float = 0.0  # share of the time
    stood_longest_ms: float = 0.0
    stolen: float = 0.0
    others: float = 0.0  # of one core


class Rounds:
    """Measures on one node, and keeps the two closed loops at the same rate."""

    def __init__(self, url: str, connections: int, scratch: Path, calm: Calm) -> None:
        self._url = url
        self._port = int(url.split(":")[2].partition("/")[0])
        self._connections = connections
        self._scratch = scratch
        self._calm = calm
        self._may_listen = may_listen()
        self._between_ms: dict[str, list[float]] = {WRK: [], CLOSED: []}  # of a client, apart from its pauses

    def trace(self, rate_per_s: float, seconds: int, kind: str) -> Path:
        trace = self._scratch / f"{kind}.jsonl"
        _run("trace", "--rate", f"{rate_per_s:.1f}", "--duration", f"{seconds}s", "--arrivals", kind, "--mix",
             f"/{self._url.rpartition('/')[2]}", "--out", str(trace))  # fmt: skip
        return trace

    def one(self, name: str, rate_per_s: float, seconds: int, trace: Path) -> Seen:
        """Runs one round; ``trace`` is for the open loop."""
        if name == OPEN:
            return self.from_trace(trace, seconds)
        client_ms = self._connections / rate_per_s * 1e3
        known = self._between_ms[name]
        mean_ms = max(_PAUSE_MIN_MS, client_ms - (statistics.median(known) if known else 0.3))
        seen = self._wrk(mean_ms, seconds) if name == WRK else self._closed_loop(mean_ms, seconds)
        known.append(self._connections / seen.rate_per_s * 1e3 - mean_ms)
        return seen

    def _wrk(self, mean_ms: float, seconds: int) -> Seen:
        script = self._scratch / "pauses.lua"
        script.write_text(_PAUSES.format(mean_ms=mean_ms))

        def measure() -> Seen:
            load = wrk.load(self._url, connections=self._connections, seconds=seconds, script=script)
            return Seen(load.rate_per_s, load.p50_ms, load.p99_ms)

        return self._watched(measure, seconds)

    def without_pause(self, seconds: int) -> float:
        """Requests per second of one process whose clients do not pause. Without wire capture."""
        return _loadgen(seconds, self._url, "-c", str(self._connections), "-z", f"{seconds}s").rate_per_s

    def _closed_loop(self, mean_ms: float, seconds: int) -> Seen:
        words = (self._url, "-c", str(self._connections), "-z", f"{seconds}s", "--pause", f"{mean_ms:.3f}ms")
        return self._watched(lambda: _loadgen(seconds, *words), seconds)

    def from_trace(self, trace: Path, seconds: int) -> Seen:
        words = (str(trace), "--target", self._url.rpartition("/")[0], "--connections", str(self._connections))
        return self._watched(lambda: _loadgen(seconds, *words), seconds)

    def _watched(self, measure: Callable[[], Seen], seconds: int) -> Seen:
        with contextlib.ExitStack() as stack:
            wire = None
            if self._may_listen:
                wire = stack.enter_context(Wire(self._port, seconds * _PACKETS_MAX_PER_S))
            before = self._calm.now()
            seen = measure()
            stood = self._calm.since(before)
            seen = seen._replace(stood_still=stood.share, stood_longest_ms=stood.longest_ms)
            seen = seen._replace(stolen=stood.stolen, others=stood.others)
            if wire is not None and not (passed := wire.passed()).lost:
                p50_ms, p99_ms = passed.percentile_ms(50), passed.percentile_ms(99)
                seen = seen._replace(wire_p50_ms=p50_ms, wire_p99_ms=p99_ms, ahead_p99=passed.ahead_p99)
        return seen


def _loadgen(seconds: int, *words: str) -> Seen:
    """Runs one loadgen process, on the client's core."""
    summary = json.loads(_run("run", *words, "--processes", "1", "--quiet", "--json"))
    whole = summary["all"]
    if whole["outcomes"]["accepted"] != whole["requests"]:
        raise SystemExit(f"bench: not all requests were served: {whole['outcomes']} {whole['failed_by_cause']}")
    sent, due = whole["answer_ms"]["percentiles"], whole["latency_ms"]["percentiles"]
    late = summary["lateness_ms"]["percentiles"]
    rate_per_s = whole["requests"] / max(summary["lasted_s"], seconds)
    cpu_us = summary["cpu_s"] / whole["requests"] * 1e6
    read_late = summary["read_lateness_ms"]["percentiles"]
    return Seen(
        rate_per_s, sent["p50"], sent["p99"], read_late["p50"], read_late["p99"], due["p50"], due["p99"], late["p50"],
        late["p99"], cpu_us,
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


def shown(seen: Seen) -> str:
    own = ""
    if seen.wire_p99_ms is not None:
        own += f"  wire {seen.wire_p50_ms:.3f} {seen.wire_p99_ms:.3f}"
    if seen.read_late_p99_ms:
        own += f"  read late {seen.read_late_p50_ms:.3f} {seen.read_late_p99_ms:.3f}"
    if seen.due_p99_ms > seen.sent_p99_ms:
        own += f"  since due {seen.due_p50_ms:.3f} {seen.due_p99_ms:.3f}"
        own += f"  late {seen.late_p50_ms:.3f} {seen.late_p99_ms:.3f}"
    if seen.cpu_us:
        own += f"  cpu {seen.cpu_us:.0f} us"
    own += f"  stood still {seen.stood_still:.1%}, longest {seen.stood_longest_ms:.0f}, others {seen.others:.0%}"
    return f"{seen.rate_per_s:>7.0f}/s  p50 {seen.sent_p50_ms:.3f}  p99 {seen.sent_p99_ms:.3f}{own}"
