"""Share switching: one class has the whole pipe; another, with half guaranteed, starts and stops. How fast?

A node has a pipe of 2 MB/s, divided into channels of 160 KB/s that a response holds for a chosen time. Requests for
`/other` come all the time, at twice the capacity; requests for `/some` in bursts, at the capacity. All times are from
the access log, where a response is sent evenly from its start to its end. So the rate of a class at a time is that of
the channels that it holds then.
"""

from __future__ import annotations

import json
from random import Random
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from qosweb.admission.gate import HEAD_BYTES
from tests.support.clusters import KIB, Load, make_site
from tests.support.nodes import RunningNode
from tests.support.pipeuse import Sent, rate_bps, sent

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Lines
    from tests.support.machine import Stalls

SPEC = "set lifetime = 500ms\n</some>.server_resource = 50%\n</other>.server_resource = 50%\n"
CHANNEL_KIB_S = 160
CAPACITY_BPS = 2 << 20
SOME, OTHER = "/some", "/other"
LEAD_S, BURST_S, REST_S = 1.5, 0.6, 1.2  # requests queued at the end of a burst wait half a second more
HALF = 0.5
NEARLY = 0.9  # of a share is there where channels are counted: with 12 of them, 6 are half
AFTER_S = 0.5
NODE, LOAD = "node", "load"


class Switch(NamedTuple):
    """Milliseconds; `taken` and `left` include responses in progress, which keep their channels."""

    started: float  # from the first request until an answer begins
    taken: float  # until the class has its share of the pipe
    left: float  # from its last start until the other has all of the pipe
    lost: float  # unused capacity of the pipe within AFTER_S of that


def switches(scratch: Path, bursts: int, answer_ms: int, stalls: Stalls) -> list[Switch]:
    """Start a node, load it, and read its log. Waits for a processor are recorded under NODE and LOAD."""
    page_kib = CHANNEL_KIB_S * answer_ms // 1000
    site = make_site(scratch / "site", {"some": page_kib * KIB, "other": page_kib * KIB})
    (scratch / "site.webqos").write_text(f"set channel = {page_kib}KB in {answer_ms}ms\n{SPEC}")
    trace = scratch / "trace.jsonl"
    trace.write_text("".join(_trace(bursts, CAPACITY_BPS / (page_kib * KIB + HEAD_BYTES))))
    with RunningNode(site, scratch, "--spec", str(scratch / "site.webqos"), "--capacity", "2MB/s") as node:
        stalls.watch(NODE, node.process.pid)
        with Load(scratch, [node], trace) as load:
            stalls.watch(LOAD, load.process.pid)
            load.wait()
        return _read(node.log())


def medians(found: list[Switch]) -> Switch:
    return Switch(*(median(column) for column in zip(*found, strict=True)))


def _trace(bursts: int, full_per_s: float) -> list[str]:
    """`full_per_s` requests fill the pipe."""
    random = Random(1)
    period_s = BURST_S + REST_S
    asked = [(at_s, OTHER) for at_s in _times(random, 0, LEAD_S + bursts * period_s, 2 * full_per_s)]
    for k in range(bursts):
        begin_s = LEAD_S + k * period_s
        asked += [(at_s, SOME) for at_s in _times(random, begin_s, begin_s + BURST_S, full_per_s)]
    return [json.dumps({"t": at_s, "url": f"{name}/page", "class": name}) + "\n" for at_s, name in sorted(asked)]


def _times(random: Random, from_s: float, to_s: float, per_s: float) -> list[float]:
    times = []
    while (from_s := from_s + random.expovariate(per_s)) < to_s:
        times.append(round(from_s, 6))
    return times


def _read(requests: Lines) -> list[Switch]:
    answers = sent(requests)
    some, other = ([one for one in answers if one.class_name == name] for name in (SOME, OTHER))
    arrivals = [float(line["ts"]) for line in requests if line["class"] == SOME]
    arrivals.sort()
    begins = [at_s for before_s, at_s in zip([0.0, *arrivals], arrivals, strict=False) if at_s > before_s + REST_S / 2]
    return [_switch(some, other, begin_s) for begin_s in begins]


def _switch(some: list[Sent], other: list[Sent], begin_s: float) -> Switch:
    of_burst = [one for one in some if begin_s <= one.began_s < begin_s + BURST_S + REST_S]
    if not of_burst:  # no request was served: count it as the latest time
        return Switch(2_000.0, 2_000.0, 2_000.0, AFTER_S * 1e3)
    last_s = of_burst[-1].began_s
    total = [*some, *other]
    used = rate_bps(total, last_s, last_s + AFTER_S) / CAPACITY_BPS
    return Switch(
        (of_burst[0].began_s - begin_s) * 1e3,
        (_reached_s(some, begin_s, NEARLY * HALF * CAPACITY_BPS) - begin_s) * 1e3,
        (_reached_s(other, last_s, NEARLY * CAPACITY_BPS) - last_s) * 1e3,
        max(0.0, 1 - used) * AFTER_S * 1e3,
    )


def _reached_s(answers: list[Sent], from_s: float, wanted_bps: float) -> float:
    """When these requests first reach this rate, to the millisecond."""
    near = [one for one in answers if one.ended_s >= from_s and one.began_s <= from_s + 2.0]
    for ms in range(2_000):
        at_s = from_s + ms / 1e3
        if rate_bps(near, at_s, at_s + 1e-3) >= wanted_bps:
            return at_s
    return from_s + 2.0
