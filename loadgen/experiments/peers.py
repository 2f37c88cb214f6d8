"""One class that matters behind a narrow pipe: what it gets here, and by what other servers can be told to do.

/a is promised 60 %. Three situations at twice the pipe: /a asks for 30 % of all, for nothing, and for 70 %.
The pipe is that of a plain node. nginx in front of it treats all alike, or holds each class to a rate of its own
(limit_req), which is a reservation: what one class leaves is lost to the other.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments.bench import KB, MB
from loadgen.experiments.evidence import DENIED, SERVED
from loadgen.experiments.findings import Check, Findings, Line, Panel, Table
from loadgen.experiments.judging import HEAD_BYTES, bytes_served, count, used
from loadgen.experiments.proxies import Nginx, missing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from loadgen.experiments.bench import Bench, Target
    from loadgen.experiments.evidence import Evidence
    from loadgen.experiments.nodes import Nodes

SIZE = 16 * KB
PROMISED = 0.6
LIFETIME_S = 0.5
OVERLOAD = 2.0
SITUATIONS = {"a asks for 30 %": 0.3, "a asks for nothing": 0.0, "a asks for 70 %": 0.7}
HERE, ALIKE, RESERVED = "qosweb", "nginx, all alike", "nginx, a rate for each"
HELD, QUICK_HELD = 0.92, 0.8  # of what is promised to /a
FILLED, QUICK_FILLED = 85.0, 65.0
WARM_UP_S = 2.0


class Got(NamedTuple):
    """One server in one situation."""

    server: str
    situation: str
    evidence: Evidence


class Peers(NamedTuple):
    name: str = "peers"
    source: str = "beyond the paper"
    title: str = "A class that matters, here and with other servers"
    criterion: str = (
        "/a has 92 % or more of what it asks for or of the 60 % it is promised, whichever is less, and 85 % or more of "
        "the pipe are used also while /a asks for nothing. Other servers are measured, not judged."
    )
    printed: str = ""

    def carry_out(self, bench: Bench) -> Findings:
        pipe_bps = bench.pipe(MB)
        lasting_s = bench.lasting(10.0, 6.0)
        capacity_per_s = pipe_bps / (SIZE + HEAD_BYTES)
        sizes = {"/a": SIZE, "/b": SIZE}
        found = []
        with ExitStack() as stack:
            ours = stack.enter_context(bench.nodes(sizes, pipe_bps, spec=bench.spec()))
            ours.begin("qosweb").wait()
            targets: list[tuple[str, Nodes, Target]] = [(HERE, ours, ours.all[0])]
            if shutil.which("nginx"):
                slow = stack.enter_context(bench.nodes(sizes, pipe_bps, spec=None))
                upstream = slow.begin("slow").wait()
                rates = {"/a": PROMISED * capacity_per_s, "/b": (1 - PROMISED) * capacity_per_s}
                for name, short, limits in ((ALIKE, "alike", {}), (RESERVED, "reserved", rates)):
                    proxy = Nginx(short, bench.scratch / short, upstream, limits, LIFETIME_S)
                    targets.append((name, slow, stack.enter_context(proxy)))
            for situation, part in SITUATIONS.items():
                asked = {"/a": OVERLOAD * part * capacity_per_s, "/b": OVERLOAD * (1 - part) * capacity_per_s}
                asked = {name: per_s for name, per_s in asked.items() if per_s}
                for server, nodes, target in targets:
                    bench.say(f"{situation}: {server}")
                    evidence = bench.load([target], asked, lasting_s, nodes=nodes)
                    found.append(Got(server, situation, evidence))
        return judge(found, pipe_bps, quick=bench.size.quick)


def judge(found: Sequence[Got], pipe_bps: float, *, quick: bool) -> Findings:
    held, filled = (QUICK_HELD, QUICK_FILLED) if quick else (HELD, FILLED)
    checks, rows, csv_rows = [], [], []
    fills: dict[str, list[float]] = {}
    parts: dict[str, list[float]] = {}
    for one in found:
        span_s = (WARM_UP_S, one.evidence.lasted_s)
        part = _part(one.evidence, span_s, pipe_bps, "/a")
        fill = used(one.evidence.clients, span_s, pipe_bps)
        fills.setdefault(one.server, []).append(fill)
        parts.setdefault(one.server, []).append(100 * part)
        if one.server == HERE:
            due = min(PROMISED, _asked(one.evidence, span_s, pipe_bps))
            if due > 0:
                checks.append(
                    Check(
                        f"{one.situation}: /a has {100 * held:g} % or more of what is due to it",
                        part >= held * due,
                        f"{100 * part:.1f} % of the pipe, due {100 * due:.1f} %",
                    )
                )
            checks.append(
                Check(f"{one.situation}: {filled:g} % or more of the pipe are used", fill >= filled, f"{fill:.1f} %")
            )
        p99 = {name: _p99(one.evidence, name) for name in ("/a", "/b")}
        numbers = [
            f"{100 * part:.1f}", f"{100 * _part(one.evidence, span_s, pipe_bps, '/b'):.1f}", f"{fill:.1f}",
            str(count(one.evidence.clients, DENIED)), p99["/a"], p99["/b"],
        ]  # fmt: skip
        rows.append([one.situation, one.server, *numbers])
        csv_rows.append([one.situation, one.server, *numbers])
    absent = missing()
    return Findings(
        seen=_sentence(fills, parts),
        checks=checks,
        panels=[
            Panel("The class that matters", "part of the load that is for /a, %", "% of the pipe for /a",
                  _lines(parts), [(100 * PROMISED, 6)]),
            Panel("The pipe", "part of the load that is for /a, %", "% used", _lines(fills)),
        ],
        tables=[
            Table("Goodput in per cent of the pipe, and response times",
                  ["situation", "server", "/a, %", "/b, %", "used, %", "denied", "/a p99, s", "/b p99, s"], rows)
        ],
        csv_head=["situation", "server", "a_percent", "b_percent", "used_percent", "denied", "a_p99_s", "b_p99_s"],
        csv_rows=csv_rows,
        notes=[f"Not installed here, and so not compared: {', '.join(absent)}."] if absent else [],
    )  # fmt: skip


def _lines(values: Mapping[str, list[float]]) -> list[Line]:
    places = [100 * part for part in SITUATIONS.values()]
    order = sorted(range(len(places)), key=lambda at: places[at])
    return [
        Line(server, [places[at] for at in order], [of[at] for at in order], tone)
        for tone, (server, of) in enumerate(values.items())
    ]


def _sentence(fills: Mapping[str, list[float]], parts: Mapping[str, list[float]]) -> str:
    told = [
        f"{server}: {parts[server][0]:.0f} % of the pipe for /a where it asks for 30 % of all, and "
        f"{fills[server][1]:.0f} % of the pipe used where it asks for nothing"
        for server in fills
    ]
    return "; ".join(told) + "."


def _part(evidence: Evidence, span_s: tuple[float, float], pipe_bps: float, name: str) -> float:
    """Of the pipe, heads included."""
    served = bytes_served(evidence.clients, *span_s).get(name, 0)
    return served * (SIZE + HEAD_BYTES) / SIZE / (pipe_bps * (span_s[1] - span_s[0]))


def _asked(evidence: Evidence, span_s: tuple[float, float], pipe_bps: float) -> float:
    asked = sum(row.class_name == "/a" and span_s[0] <= row.asked_s < span_s[1] for row in evidence.clients)
    return asked * (SIZE + HEAD_BYTES) / (pipe_bps * (span_s[1] - span_s[0]))


def _p99(evidence: Evidence, name: str) -> str:
    took = sorted(row.took_s for row in evidence.clients if row.what == SERVED and row.class_name == name)
    return f"{took[int(0.99 * (len(took) - 1))]:.2f}" if took else ""


PEERS = Peers()
