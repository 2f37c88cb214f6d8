"""Runs wrk as the load generator: one thread, pinned to the client's core."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.contenders import CLIENT_CORE, can_pin

if TYPE_CHECKING:
    from pathlib import Path

# A field that is different in every request: no server can get by with remembering a head it has seen.
DISTINCT_HEADS = """
local number = 0
request = function()
    number = number + 1
    wrk.headers["X-Number"] = number
    return wrk.format(nil, nil)
end
"""

_SCALE_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


@dataclass(frozen=True)
class Measured:
    rate_per_s: float
    p50_ms: float
    p99_ms: float
    requests: int


def require() -> None:
    if shutil.which("wrk") is None:
        raise SystemExit(
            "bench: needs wrk as load generator (apt-get install wrk; nginx to compare with: apt-get install nginx)"
        )


def version() -> str:
    """The version that wrk prints; empty if it is not installed."""
    if shutil.which("wrk") is None:
        return ""
    said = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False, timeout=60)  # ends with 1
    found = re.search(r"^wrk (\S+)", said.stdout + said.stderr, re.MULTILINE)
    return found[1] if found else "unknown"


def load(
    url: str,
    *,
    connections: int,
    seconds: int,
    script: Path | None = None,
) -> Measured:
    """Runs a closed loop on ``url``; any response but 2xx, or a socket error, ends the benchmark."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", url]
    if script is not None:
        command[1:1] = ["-s", str(script)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=False,
        preexec_fn=(lambda: os.sched_setaffinity(0, {CLIENT_CORE})) if can_pin() else None,
    )
    text = done.stdout
    if done.returncode or "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit(f"bench: the load on {url} met errors:\n{text}{done.stderr}")
    return Measured(
        rate_per_s=float(_find(r"Requests/sec:\s+([\d.]+)", text)[0]),
        p50_ms=_latency(text, "50"),
        p99_ms=_latency(text, "99"),
        requests=int(_find(r"(\d+) requests in", text)[0]),
    )


def _latency(text: str, percentile: str) -> float:
    number, unit = _find(rf"^\s+{percentile}%\s+([\d.]+)(us|ms|s|m)\s*$", text)
    return float(number) * _SCALE_MS[unit]


def _find(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise SystemExit(f"bench: cannot read wrk's output:\n{text}")
    return match.groups()


def bytes_received(text: str) -> float:
    """By wrk's output: all bytes that it read, in all."""
    number, unit = _find(r"requests in [\d.]+\w+, ([\d.]+)(B|KB|MB|GB) read", text)
    return float(number) * {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[unit]
