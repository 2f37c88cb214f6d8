"""Two equal classes with demands of 65 to 35, from far below the pipe's capacity to twice it: the paper's figure 7."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments import published_figures as published
from loadgen.experiments.evidence import DENIED
from loadgen.experiments.findings import Check, ExperimentFindings, Mark, Panel, PlotLine, Table
from loadgen.experiments.judging import HEAD_BYTES, count, judge_no_failures, judge_witnesses, served_of, used
from loadgen.experiments.layout import ONE_PIPE, Layout
from loadgen.experiments.workbench import KB, MB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.experiments.evidence import Evidence, ObservedRequest
    from loadgen.experiments.workbench import Workbench

MIX = {"/a": 0.65, "/b": 0.35}
SIZE = 16 * KB
LOADS = (0.3, 0.6, 0.8, 1.0, 1.1, 1.25, 1.4, 1.6, 2.0)
QUICK_LOADS = (0.5, 2.0)
FREE_TO = 0.8  # up to this load, random variation must not cause a denial
POINTS = 2.0
QUICK_POINTS = 4.0
EDGE, EDGE_POINTS = 0.05, 5.0  # where /b demands nearly half of the pipe
WARM_UP_S = 1.0
HEAD = ["times the pipe", "/a, %", "expected, %", "/a denied", "/b denied", "pipe used, %"]
NOTE = (
    "Expected is computed from what was really asked for, which chance makes differ from 65 to 35, and from what was "
    "served in all: on a busy machine a pipe is full before it carries all it could. Where /b asks for nearly half, "
    "chance decides from moment to moment who wants less; what it does not use then it has not saved for later."
)


class ContentionStep(NamedTuple):
    """One load of the sweep, in multiples of the pipe's capacity."""

    times: float
    evidence: Evidence


def expected(asked_a: float, asked_b: float, whole: float) -> float:
    """The expected share of /a in per cent, from the demands and the total served, in bytes.

    Equal halves, but a class that demands less than half gets all of it, and the other class gets the rest.
    """
    if asked_a + asked_b <= whole:
        return 100 * asked_a / (asked_a + asked_b)
    return 100 * min(asked_a, max(whole / 2, whole - asked_b)) / whole


class ContentionExperiment(NamedTuple):
    name: str = "contention"
    source: str = "figure 7"
    title: str = "Two equal classes asked for 65 to 35, from below contention to twice the pipe"
    printed: str = (
        f"In the paper contention begins at about {published.FIGURE_7_CONTENTION[0]} and is full at about "
        f"{published.FIGURE_7_CONTENTION[1]} requests per second of 128 KB: below, acceptances match the requests "
        f"(65 to 35), above they approach the specification (50 to 50). {published.sizes_beside(SIZE // KB)}"
    )
    layout: Layout = ONE_PIPE

    def criterion(self, *, quick: bool) -> str:
        return (
            f"Up to {FREE_TO:g} times the pipe nothing is denied and the mix is as asked for; above the pipe each "
            f"class has half, or all it asks for if that is less: within {QUICK_POINTS if quick else POINTS:g} points, "
            f"or {EDGE_POINTS:g} where /b asks for nearly half."
        )

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        pipe_bps = bench.pipe(MB)
        names = bench.node_names()
        lasting_s = bench.lasting(9.0, 5.0)
        steps = []
        sizes = dict.fromkeys(MIX, SIZE)
        with bench.nodes(sizes, pipe_bps // len(names), spec=bench.spec(), cluster=len(names) > 1) as nodes:
            nodes.add(*names)
            for times in QUICK_LOADS if bench.size.quick else LOADS:
                bench.say(f"{times:g} times the pipe for {lasting_s:g} s")
                rates = {name: times * part * pipe_bps / (SIZE + HEAD_BYTES) for name, part in MIX.items()}
                steps.append(ContentionStep(times, bench.load(nodes.all, rates, lasting_s, nodes=nodes)))
        return judge(steps, pipe_bps, QUICK_POINTS if bench.size.quick else POINTS)


def judge(steps: Sequence[ContentionStep], pipe_bps: float, points: float) -> ExperimentFindings:
    checks: list[Check] = []
    rows, csv_rows = [], []
    got_a, wanted_a, denied = [], [], []
    for step in steps:
        evidence = step.evidence
        off = []
        for witness, seen in evidence.witnesses():
            wanted, found = _shares(seen, evidence.lasted_s)
            off.append((witness, wanted, found))
            csv_rows.append(
                [f"{step.times:g}", witness, f"{found:.2f}", f"{wanted:.2f}",
                 *(str(number) for name in MIX for number in served_of(seen, name))]
            )  # fmt: skip
        refused = count(evidence.clients, DENIED)
        allowed = max(points, EDGE_POINTS) if abs(step.times * MIX["/b"] - 0.5) < EDGE else points
        checks.append(
            Check(
                f"{step.times:g} times the pipe: /a within {allowed:g} points of what it should have",
                all(abs(found - wanted) <= allowed for _, wanted, found in off),
                "; ".join(f"{witness} {found:.1f} of {wanted:.1f}" for witness, wanted, found in off),
            )
        )
        if step.times <= FREE_TO:
            checks.append(Check(f"{step.times:g} times the pipe: nothing denied", not refused, f"{refused} denied"))
        sound = [judge_no_failures(evidence.clients), judge_witnesses(evidence)]
        checks += [one for one in sound if not one.holds]
        got_a.append(off[0][2])
        wanted_a.append(off[0][1])
        denied.append({name: (lambda pair: pair[1] - pair[0])(served_of(evidence.clients, name)) for name in MIX})
        rows.append(
            [
                f"{step.times:g}",
                f"{off[0][2]:.1f}",
                f"{off[0][1]:.1f}",
                str(denied[-1]["/a"]),
                str(denied[-1]["/b"]),
                f"{used(evidence.clients, (WARM_UP_S, evidence.lasted_s), pipe_bps):.0f}",
            ]
        )
    times = [step.times for step in steps]
    with_denials = [step.times for step, one in zip(steps, denied, strict=True) if sum(one.values())]
    first = f"denials begin at {with_denials[0]:g} times" if with_denials else "nothing is denied"
    seconds = steps[0].evidence.lasted_s
    return ExperimentFindings(
        seen=f"At {times[0]:g} times the pipe /a has {got_a[0]:.1f} % of the bytes, as it is asked for, and at "
        f"{times[-1]:g} times {got_a[-1]:.1f} %; {first}.",
        checks=checks,
        panels=[
            Panel(
                "Served bytes, by clients", "asked for, in multiples of the pipe", "per cent",
                [
                    PlotLine("/a", times, got_a, 0), PlotLine("/b", times, [100 - a for a in got_a], 1),
                    PlotLine("/a expected", times, wanted_a, 0, dashed=True),
                    PlotLine("/b expected", times, [100 - a for a in wanted_a], 1, dashed=True),
                ],
                marks=[Mark(1.0, "the pipe is full")],
            ),
            Panel(
                "Denied", "asked for, in multiples of the pipe", "requests per second",
                [PlotLine(name, times, [one[name] / seconds for one in denied], tone) for tone, name in enumerate(MIX)],
                marks=[Mark(1.0, "the pipe is full")],
            ),
        ],
        tables=[Table("The sweep", HEAD, rows)],
        csv_head=["times", "witness", "a_percent", "expected_percent", "a_served", "a_asked", "b_served", "b_asked"],
        csv_rows=csv_rows,
        notes=[NOTE],
    )  # fmt: skip


def _shares(seen: list[ObservedRequest], lasted_s: float) -> tuple[float, float]:
    """Expected and actual share of /a, of the requests after the first second."""
    fates = {name: served_of(seen, name, (WARM_UP_S, lasted_s)) for name in MIX}
    whole = sum(served for served, _ in fates.values())
    if not whole:
        return 0.0, 100.0
    return expected(fates["/a"][1], fates["/b"][1], whole), 100 * fates["/a"][0] / whole


CONTENTION = ContentionExperiment()
