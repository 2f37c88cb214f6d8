"""An application server whose capacity nobody has set, behind a node and behind nginx, HAProxy and Apache.

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

from loadgen.experiments.evidence import DENIED, FAILED, SERVED
from loadgen.experiments.findings import Bars, Check, ExperimentFindings, Stack, Table
from loadgen.experiments.judging import count, judge_no_failures, judge_witnesses, windows
from loadgen.experiments.layout import SIDE_BY_SIDE, Layout
from loadgen.experiments.nodes import NodeProcesses
from loadgen.experiments.proxies.proxy import ProxyTask
from loadgen.experiments.scenarios.peers import (
    HEAVY,
    LIFETIME_S,
    OVERLOAD,
    PEERS_KNOWN,
    PROMISED,
    SITUATIONS,
    STARVED,
    WARM_UP_S,
)
from loadgen.experiments.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.experiments.evidence import Evidence, ObservedRequest
    from loadgen.experiments.workbench import LoadTarget, Workbench

WORKERS, SERVICE_MS = 8, 40
CAPACITY_PER_S = WORKERS * 1000 / SERVICE_MS
OURS = "qosweb"
HELD, QUICK_HELD = 0.92, 0.8  # fraction of what is due to /a
USED, QUICK_USED = 90.0, 70.0  # per cent of the server
SETTLES_S = 3.0  # after the server works again
FAILS_AT, WORKS_AT = 1 / 3, 1 / 2  # of the run


class ServerMeasurement(NamedTuple):
    """One server or proxy in one situation."""

    server: str
    situation: str
    evidence: Evidence


class ServerResult(NamedTuple):
    """In per cent of what the application server can do."""

    a: float
    b: float
    due_a: float  # the smaller of demand and guarantee of /a
    p99_s: float

    @property
    def used(self) -> float:
        return self.a + self.b


class UpstreamExperiment(NamedTuple):
    name: str
    title: str
    fails: bool
    source: str = "beyond the paper"
    printed: str = ""
    layout: Layout = SIDE_BY_SIDE

    def criterion(self, *, quick: bool) -> str:
        held, least = (QUICK_HELD, QUICK_USED) if quick else (HELD, USED)
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
        here = [peer for peer in PEERS_KNOWN if peer.installed()]
        with ExitStack() as stack:
            records = bench.scratch / "records"
            server = stack.enter_context(ServerProcess(WORKERS, [str(SERVICE_MS)], records))
            options = ["--upstream", server.url, "--spec", str(bench.spec()), "--client-share", "100%"]
            options += ["--max-connections-per-client", "5000"]  # all clients have one address here
            ours = stack.enter_context(NodeProcesses(bench.folder, options, cluster=False))
            nobody = stack.enter_context(NodeProcesses(bench.folder, [], cluster=False))
            targets: list[tuple[str, NodeProcesses, LoadTarget]] = [(OURS, ours, ours.begin("qosweb").wait())]
            for at, peer in enumerate(here):
                task = ProxyTask(server, bench.scratch / f"peer{at}", PROMISED, CAPACITY_PER_S, LIFETIME_S)
                targets.append((peer.title, nobody, stack.enter_context(peer.begin(f"peer{at}", task))))
            for situation, part in situations.items():
                asked = {"/a": OVERLOAD * part * CAPACITY_PER_S, "/b": OVERLOAD * (1 - part) * CAPACITY_PER_S}
                asked = {name: per_s for name, per_s in asked.items() if per_s}
                for title, nodes, target in targets:
                    bench.say(f"{situation}: {title}")
                    if self.fails:
                        server.tell(f"outage {FAILS_AT * lasting_s:.2f} {(WORKS_AT - FAILS_AT) * lasting_s:.2f}")
                    evidence = bench.load([target], asked, lasting_s, nodes=nodes, like=situation)
                    found.append(ServerMeasurement(title, situation, evidence))
        absent = sorted({peer.needs for peer in PEERS_KNOWN} - {peer.needs for peer in here})
        findings = judge(found, fails=self.fails, quick=bench.size.quick)
        if absent:
            findings.notes.append(f"Not installed here, and so not compared: {', '.join(absent)}.")
        return findings


def judge(found: Sequence[ServerMeasurement], *, fails: bool, quick: bool) -> ExperimentFindings:
    held, least = (QUICK_HELD, QUICK_USED) if quick else (HELD, USED)
    checks: list[Check] = []
    rows: list[list[str]] = []
    bars: dict[str, dict[str, ServerResult]] = {}
    for one in found:
        for part, span_s in _spans(one.evidence, fails=fails).items():
            got = _result(one.evidence.clients, span_s)
            situation = f"{one.situation}{part}"
            bars.setdefault(situation, {})[one.server] = got
            if one.server == OURS:
                checks += _checks(situation, got, held, least)
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
        panels=[_bars(situation, of) for situation, of in bars.items()],
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


def _result(rows: Sequence[ObservedRequest], span_s: tuple[float, float]) -> ServerResult:
    whole = CAPACITY_PER_S * (span_s[1] - span_s[0]) / 100
    served = [row for row in rows if row.what == SERVED and span_s[0] <= row.ended_s < span_s[1]]
    a, b = (sum(row.class_name == name for row in served) / whole for name in PROMISED)
    due = 0.0
    for begin_s, end_s in windows(*span_s, 1.0):
        asked = sum(row.class_name == "/a" and begin_s <= row.asked_s < end_s for row in rows)
        due += min(asked, PROMISED["/a"] * CAPACITY_PER_S * (end_s - begin_s))
    took = sorted(row.took_s for row in served)
    return ServerResult(a, b, due / whole, took[int(0.99 * (len(took) - 1))] if took else 0.0)


def _checks(situation: str, got: ServerResult, held: float, least: float) -> list[Check]:
    used = Check(f"{situation}: {least:g} % or more of the server are used", got.used >= least, f"{got.used:.1f} %")
    if not got.due_a:
        return [used]
    text = f"{situation}: /a has {100 * held:g} % or more of what is due to it"
    return [Check(text, got.a >= held * got.due_a, f"{got.a:.1f} % of the server, due {got.due_a:.1f} %"), used]


def _in_time(rows: Sequence[ObservedRequest]) -> Check:
    """A response that was about to come may take some service times more."""
    slowest_s = max((row.took_s for row in rows), default=0.0)
    return Check("every request is answered within its lifetime and 0.5 s", slowest_s <= LIFETIME_S + 0.5,
                 f"{len(rows)} requests, the slowest took {slowest_s:.2f} s")  # fmt: skip


def _bars(situation: str, of: dict[str, ServerResult]) -> Bars:
    results = list(of.values())
    due = max(got.due_a for got in results)
    return Bars(
        f"At {OVERLOAD:g} times the application server, {situation}",
        "% of the server",
        list(of),
        [Stack("/a", [got.a for got in results], 0), Stack("/b", [got.b for got in results], 1)],
        [(due, "due to /a")] if due else [],
    )


def _sentence(bars: dict[str, dict[str, ServerResult]]) -> str:
    parts = [
        f"{situation}: /a has {of[OURS].a:.0f} % of the server, due {of[OURS].due_a:.0f} %, {of[OURS].used:.0f} % used"
        for situation, of in bars.items()
    ]
    short = sorted(
        {name for of in bars.values() for name, got in of.items() if name != OURS and got.a < HELD * got.due_a}
    )
    starved = sorted(
        {name for situation, of in bars.items() for name, got in of.items()
         if name != OURS and situation.startswith(HEAVY) and got.b < STARVED * 100 * PROMISED["/b"]}
    )  # fmt: skip
    said = f"With nothing configured but the guarantee, {'; '.join(parts)}."
    if short:
        said += f" /a is short behind {', '.join(short)}."
    if starved:
        said += f" /b starves behind {', '.join(starved)}."
    return said


UPSTREAM = UpstreamExperiment("upstream", "An application server whose capacity nobody has set", fails=False)
UPSTREAM_FAILING = UpstreamExperiment("upstream-failing", "An application server that fails for a while", fails=True)
