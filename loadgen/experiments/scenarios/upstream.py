"""An application server without a configured capacity, behind a node and behind nginx, HAProxy and Apache.

The server is simulated (`simulated_server`): eight workers that sleep, with a queue of their own. /a is guaranteed 60 %
of it. Our node gets the guarantee and nothing else: it has to find how many requests the server works on at a time. The
others get limits by hand, with the server's capacity known (`proxies`).

``upstream``: twice the server's capacity; the demand of /a is 30 % of all requests, none, and 70 %.
``upstream-failing``: /a asks for 70 %, and for a third of the time the server answers every request with an error.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from loadgen.experiments import comparison
from loadgen.experiments.comparison import (
    GUARANTEED,
    HEAVY,
    OVERLOAD,
    SITUATIONS,
    WARM_UP_S,
    PeerMeasurement,
    PeerResult,
)
from loadgen.experiments.evidence import DENIED, FAILED, SERVED
from loadgen.experiments.findings import Check, ExperimentFindings, Table
from loadgen.experiments.judging import count, judge_no_failures, judge_witnesses
from loadgen.experiments.layout import SIDE_BY_SIDE, Layout
from loadgen.experiments.nodes import NodeProcesses
from loadgen.experiments.proxies.proxy import ProxyTask
from loadgen.experiments.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.experiments.evidence import Evidence, ObservedRequest
    from loadgen.experiments.workbench import LoadTarget, Workbench

WORKERS, SERVICE_MS = 8, 40
CAPACITY_PER_S = WORKERS * 1000 / SERVICE_MS
OURS = "qosweb"
USED, QUICK_USED = 90.0, 70.0  # per cent of the server
SETTLES_S = 3.0  # after the server works again
FAILS_AT, WORKS_AT = 1 / 3, 1 / 2  # of the run


class UpstreamExperiment(NamedTuple):
    name: str
    title: str
    fails: bool
    source: str = "beyond the paper"
    printed: str = ""
    layout: Layout = SIDE_BY_SIDE

    def criterion(self, *, quick: bool) -> str:
        held, least = (comparison.QUICK_HELD, QUICK_USED) if quick else (comparison.HELD, USED)
        text = (
            f"/a gets {100 * held:g} % or more of its demand, second by second, or of its guaranteed 60 %, whichever "
            f"is less, and {least:g} % or more of the application server are used"
        )
        if self.fails:
            text += (
                f", before the server fails and from {SETTLES_S:g} s after it works again; while it fails, "
                "every request is answered within its lifetime"
            )
        else:
            text += ", even while /a has no requests; every request is served or denied, and logs and clients agree"
        return f"{text}. The other servers are measured, not judged."

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        lasting_s = bench.lasting(18.0, 12.0) if self.fails else bench.lasting(9.0, 6.0)
        situations = {HEAVY: SITUATIONS[HEAVY]} if self.fails else SITUATIONS
        found = []
        here, notes = comparison.installed_peers()
        with ExitStack() as stack:
            records = bench.scratch / "records"
            server = stack.enter_context(ServerProcess(WORKERS, [str(SERVICE_MS)], records))
            options = ["--upstream", server.url, "--spec", str(bench.spec()), "--client-share", "100%"]
            options += ["--max-connections-per-client", "5000"]  # all clients have one address here
            ours = stack.enter_context(NodeProcesses(bench.folder, options, cluster=False))
            nobody = stack.enter_context(NodeProcesses(bench.folder, [], cluster=False))
            targets: list[tuple[str, NodeProcesses, LoadTarget]] = [(OURS, ours, ours.begin("qosweb").wait())]
            for at, peer in enumerate(here):
                task = ProxyTask(server, bench.scratch / f"peer{at}", GUARANTEED, CAPACITY_PER_S, comparison.LIFETIME_S)
                targets.append((peer.title, nobody, stack.enter_context(peer.begin(f"peer{at}", task))))
            for situation, part in situations.items():
                asked = comparison.rates(part, CAPACITY_PER_S)
                for title, nodes, target in targets:
                    bench.say(f"{situation}: {title}")
                    if self.fails:
                        server.tell(f"outage {FAILS_AT * lasting_s:.2f} {(WORKS_AT - FAILS_AT) * lasting_s:.2f}")
                    evidence = bench.load([target], asked, lasting_s, nodes=nodes, like=situation)
                    found.append(PeerMeasurement(title, situation, evidence))
        findings = judge(found, fails=self.fails, quick=bench.size.quick)
        findings.notes += notes
        return findings


def judge(found: Sequence[PeerMeasurement], *, fails: bool, quick: bool) -> ExperimentFindings:
    held, least = (comparison.QUICK_HELD, QUICK_USED) if quick else (comparison.HELD, USED)
    checks: list[Check] = []
    rows: list[list[str]] = []
    bars: dict[str, dict[str, PeerResult]] = {}
    for one in found:
        for part, span_s in _spans(one.evidence, fails=fails).items():
            got = _result(one.evidence.clients, span_s)
            situation = f"{one.situation}{part}"
            bars.setdefault(situation, {})[one.server] = got
            if one.server == OURS:
                checks += comparison.judge_result(situation, got, held, least, "server")
            rows.append(
                [situation, one.server, f"{got.a:.1f}", f"{got.b:.1f}", f"{got.due_a:.1f}", f"{got.used:.1f}",
                 f"{got.p99_s:.2f}", *(str(count(one.evidence.clients, what, span_s)) for what in (DENIED, FAILED))]
            )  # fmt: skip
        if one.server == OURS:
            clients = one.evidence.clients
            sound = [_in_time(clients)] if fails else [judge_no_failures(clients), judge_witnesses(one.evidence)]
            checks += [replace(check, text=f"{one.situation}: {check.text}") for check in sound]
    head = ["situation", "server", "a, %", "b, %", "due to a, %", "used, %", "p99, s", "denied", "failed"]
    return ExperimentFindings(
        seen=_sentence(bars),
        checks=checks,
        panels=[
            comparison.draw_bars(f"At {OVERLOAD:g} times the application server, {situation}", "% of the server", of)
            for situation, of in bars.items()
        ],
        tables=[Table("Requests served in per cent of the application server's capacity", head, rows)],
        csv_head=[word.replace(", %", "_percent").replace(", s", "_s").replace(" ", "_") for word in head],
        csv_rows=rows,
    )


def _spans(evidence: Evidence, *, fails: bool) -> dict[str, tuple[float, float]]:
    end_s = evidence.lasted_s
    if not fails:
        return {"": (WARM_UP_S, end_s)}
    return {
        ", before": (WARM_UP_S, FAILS_AT * end_s),
        ", after": (WORKS_AT * end_s + SETTLES_S, end_s),
    }


def _result(rows: Sequence[ObservedRequest], span_s: tuple[float, float]) -> PeerResult:
    whole = CAPACITY_PER_S * (span_s[1] - span_s[0]) / 100
    served = [row for row in rows if row.outcome == SERVED and span_s[0] <= row.ended_s < span_s[1]]
    a, b = (sum(row.class_name == name for row in served) / whole for name in GUARANTEED)
    return PeerResult(a, b, comparison.due(rows, span_s, CAPACITY_PER_S) / whole, a + b, comparison.p99_s(served))


def _in_time(rows: Sequence[ObservedRequest]) -> Check:
    """A response that was about to come may take some service times more."""
    slowest_s = max((row.took_s for row in rows), default=0.0)
    return Check("every request is answered within its lifetime and 0.5 s", slowest_s <= comparison.LIFETIME_S + 0.5,
                 f"{len(rows)} requests, the slowest took {slowest_s:.2f} s")  # fmt: skip


def _sentence(bars: dict[str, dict[str, PeerResult]]) -> str:
    parts = [
        f"{situation}: /a has {of[OURS].a:.0f} % of the server, due {of[OURS].due_a:.0f} %, {of[OURS].used:.0f} % used"
        for situation, of in bars.items()
    ]
    short = sorted(
        {
            name
            for of in bars.values()
            for name, got in of.items()
            if name != OURS and got.a < comparison.HELD * got.due_a
        }
    )
    starved = sorted(
        {name for situation, of in bars.items() for name, got in of.items()
         if name != OURS and situation.startswith(HEAVY) and got.b < comparison.STARVED * 100 * GUARANTEED["/b"]}
    )  # fmt: skip
    said = f"With nothing configured but the guarantee, {'; '.join(parts)}."
    if short:
        said += f" /a is short behind {', '.join(short)}."
    if starved:
        said += f" /b starves behind {', '.join(starved)}."
    return said


UPSTREAM = UpstreamExperiment("upstream", "An application server whose capacity nobody has set", fails=False)
UPSTREAM_FAILING = UpstreamExperiment("upstream-failing", "An application server that fails for a while", fails=True)
