"""Five classes with a promise each, on pipes of 2 MB/s, and what has to hold of them by access logs and clients.

A machine that has other things to do is allowed for, by what it did meanwhile (`machine`): a bound that was measured is
the promise itself while the nodes got the processor when they wanted it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.clusters import KIB, make_site, shares_between
from tests.support.pipeuse import rate_bps, sent

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Lines
    from tests.support.machine import Noise

FIVE = {"a": 0.10, "b": 0.15, "c": 0.20, "d": 0.25, "e": 0.30}
LIFETIME_MS = 500
FIVE_SPEC = f"set lifetime = {LIFETIME_MS}ms\nset channel = 16KB in 100ms\n" + "".join(
    f"</{name}>.server_resource = {share:.0%}\n" for name, share in FIVE.items()
)
EVENLY = [f"{name}=20:/{name}/page" for name in FIVE]
PIPE_BPS = 2 << 20
PIPE = ("--capacity", "2MB/s")  # some 126 pages of 16 KB a second
WINDOW_S = 10
POINTS = 0.02
SETTLING_S = 2.0  # after which shares are held
USED = 0.97
STARVED = 0.25  # of the time: below that a machine is no excuse
NOISE_MS = 50
SERVICE_MS = 100


def five_pages(root: Path) -> Path:
    return make_site(root, dict.fromkeys(FIVE, 16 * KIB))


def assert_shares(requests: Lines, from_s: float, to_s: float) -> None:
    held = shares_between(requests, from_s, to_s)
    assert held == {f"/{name}": pytest.approx(share, abs=POINTS) for name, share in FIVE.items()}


def assert_used(requests: Lines, pipes: int, from_s: float, to_s: float, starved: float) -> None:
    """The pipes were full, but for what the machine kept from the nodes."""
    used = rate_bps(sent(requests), from_s, to_s) / (pipes * PIPE_BPS)
    assert used >= USED - (starved if starved > STARVED else 0), f"{used:.3f} of the pipes, {starved:.3f} starved"


def assert_lifetimes(requests: Lines, noise: Noise) -> None:
    """Nobody waited for longer than it may, whatever was decided then."""
    longest = max(requests, key=lambda line: float(line["queue_ms"]))
    assert longest["queue_ms"] <= LIFETIME_MS + NOISE_MS + noise.worst_ms, (noise.worst_ms, longest)


def assert_answered_in_time(results: Lines, noise: Noise) -> None:
    """The same as clients see it: who was not served knew in time, and who was served began in time."""
    most_ms = LIFETIME_MS + NOISE_MS + 2 * noise.worst_ms  # the generator is late at times, too
    late = [
        line
        for line in results
        if (line["latency_us"] - line.get("sent_us", 0)) / 1e3
        > most_ms + (SERVICE_MS if line["outcome"] == "accepted" else 0)
    ]
    assert late == [], noise.worst_ms
