"""Five classes with one guarantee each, on pipes of 2 MB/s, and assertions on access logs and client results.

The load of the machine is allowed for (`machine`): a measured bound is the guarantee itself while the nodes got the
processor when they needed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clusters import KIB, make_site, shares_between
from tests.support.pipeuse import rate_bps, sent

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.support.clusters import Lines
    from tests.support.machine import Stalls

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
POINTS_BUSY = 0.05  # if the machine kept the nodes waiting
SETTLING_S = 2.0  # after which shares are held
USED = 0.97
STARVED = 0.25  # of the time: above that a machine excuses more
NOISE_MS = 50
BUSY_MS = 300  # within a second that a process waited for a processor


def five_pages(root: Path) -> Path:
    return make_site(root, dict.fromkeys(FIVE, 16 * KIB))


def assert_shares(requests: Lines, from_s: float, to_s: float, starved: float) -> None:
    held = shares_between(requests, from_s, to_s)
    wanted = {f"/{name}": pytest.approx(share, abs=points(starved)) for name, share in FIVE.items()}
    assert held == wanted, f"{held}, {starved:.3f} of the time starved"


def points(starved: float) -> float:
    """How far a share may be from its guarantee."""
    return POINTS if starved <= STARVED else POINTS_BUSY


def assert_used(
    requests: Lines, pipes: int, from_s: float, to_s: float, starved: float, *, least: float = USED
) -> None:
    """The pipes were full, except for the time that the nodes waited for a processor."""
    used = rate_bps(sent(requests), from_s, to_s) / (pipes * PIPE_BPS)
    # A starved process is late twice: to send, and to start. The next waiting request makes up for a little of that.
    excuse = 2 * starved if starved > STARVED else starved / 10
    assert used >= least - excuse, f"{used:.3f} of the pipes used, {starved:.3f} of the time starved"


def assert_lifetimes(requests: Lines, stalls: Stalls) -> None:
    """No request waited longer than its lifetime, except for the time that its node waited for a processor.

    On a busy machine processes also wait for each other, which is not counted: there is a bound on that, too.
    """
    busy = {name for name in {line["node"] for line in requests} if stalls.worst_ms(name) > BUSY_MS}
    late = [
        (round(delay_ms), line)
        for line in requests
        if (delay_ms := own_delay_ms(line, stalls)) > NOISE_MS + (BUSY_MS if line["node"] in busy else 0)
    ]
    assert late == [], (len(late), late[:3])


def own_delay_ms(line: dict[str, Any], stalls: Stalls) -> float:
    """The wait beyond the lifetime."""
    delay_ms = float(line["queue_ms"]) - LIFETIME_MS
    if delay_ms <= NOISE_MS:
        return delay_ms
    until_s = line["ts"] + line["queue_ms"] / 1e3
    return delay_ms - stalls.waited_ms(line["node"], until_s - delay_ms / 1e3, until_s)


def assert_told_in_time(results: Lines, stalls: Stalls, nodes: Iterable[str]) -> None:
    """The same as clients see it: a request that was not served got its response in time.

    Clients also wait for a processor, and their requests wait to be read: on a busy machine this proves nothing.
    """
    denied = [line for line in results if line["outcome"] == "denied" and not line.get("redirects")]
    longest_ms = max((line["latency_us"] - line.get("sent_us", 0)) / 1e3 for line in denied)
    worst_ms = max(stalls.worst_ms(name) for name in nodes)
    assert longest_ms <= LIFETIME_MS + NOISE_MS + 2 * worst_ms or worst_ms > BUSY_MS, (longest_ms, worst_ms)
