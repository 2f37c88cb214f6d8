"""Classes with fixed shares under overload: the paper's figures 4 and 5, and table 1.

Every class demands at least one and a half times its share, but not in proportion to the shares: a server without
guarantees would serve in proportion to demand, which is far from the guaranteed shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments import published_figures as published
from loadgen.experiments.findings import ExperimentFindings, Panel, Table
from loadgen.experiments.judging import (
    HEAD_BYTES,
    QUICK,
    STRICT,
    WARM_UP_S,
    Tolerance,
    judge_no_failures,
    judge_served,
    judge_shares,
    judge_witnesses,
    points,
    served_of,
    shares,
    used,
)
from loadgen.experiments.layout import ONE_PIPE, Layout
from loadgen.experiments.timelines import CSV_HEAD, csv_rows, share_lines
from loadgen.experiments.workbench import KB, MB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loadgen.experiments.evidence import Evidence
    from loadgen.experiments.workbench import Workbench

OVERLOAD = 2.0


class FixedShares(NamedTuple):
    """``asked`` is in fractions of the pipe; ``guaranteed`` in per cent of what ``always`` leaves."""

    name: str
    source: str
    title: str
    printed: str
    pipe_bps: float
    sizes: Mapping[str, int]
    asked: Mapping[str, float]
    guaranteed: Mapping[str, float]
    always: str = ""
    table_1: str = ""  # the column of table 1 to show beside ours
    layout: Layout = ONE_PIPE

    def criterion(self, *, quick: bool) -> str:
        allowed = self._tolerance(QUICK if quick else STRICT)
        if self.always:
            whom = f"{self.always} is served 100 %; each other class's share of the remaining bytes"
        else:
            whom = "Each class's share of the served bytes"
        in_windows = f", and within {allowed.window_points:g} points in every window of {allowed.window_s:g} s"
        return (
            f"After {WARM_UP_S:g} s: {whom} is within {points(allowed.whole_points)} of its guaranteed share over "
            f"the whole run{'' if quick else in_windows}."
        )

    def _tolerance(self, usual: Tolerance) -> Tolerance:
        if self.always and usual == STRICT:
            return usual._replace(whole_points=2.0, window_points=4.0)
        return usual

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        pipe_bps = bench.pipe(self.pipe_bps)
        names = bench.node_names()
        lasting_s = bench.lasting(32.0, 10.0)
        rates = {name: part * pipe_bps / (self.sizes[name] + HEAD_BYTES) for name, part in self.asked.items()}
        cluster = len(names) > 1
        with bench.nodes(self.sizes, pipe_bps // len(names), spec=bench.spec(), cluster=cluster) as nodes:
            nodes.add(*names)
            bench.say(f"{sum(rates.values()):.0f} requests/s for {lasting_s:g} s")
            evidence = bench.load(nodes.all, rates, lasting_s, nodes=nodes)
        return self.judge(bench, evidence, pipe_bps)

    def judge(self, bench: Workbench, evidence: Evidence, pipe_bps: float) -> ExperimentFindings:
        span_s = (WARM_UP_S, evidence.lasted_s)
        checks = [judge_no_failures(evidence.clients), judge_witnesses(evidence)]
        for witness, rows in evidence.witnesses():
            if self.always:
                checks.append(judge_served(rows, self.always, 100.0, witness))
            tolerance = self._tolerance(bench.tolerance)
            of = " to the rest" if self.always else ""
            checks += judge_shares(rows, self.guaranteed, span_s, tolerance, witness, of)
        classes = list(self.guaranteed)
        got = shares(evidence.clients, *span_s, classes)
        fill = used(evidence.clients, span_s, pipe_bps)
        step_s = 5.0 if evidence.lasted_s >= 30 else 1.0
        listed = ", ".join(f"{name} {got[name]:.1f} of {self.guaranteed[name]:g}" for name in classes)
        of_what = f" of what {self.always} left" if self.always else ""
        seen = f"Under {OVERLOAD:g} times what the pipe takes, clients got {listed} per cent{of_what}"
        if self.always:
            served, asked = served_of(evidence.clients, self.always)
            seen += f", and {self.always} got {served} of its {asked} answers"
        return ExperimentFindings(
            seen=f"{seen}; {fill:.0f} % of the pipe was used.",
            checks=checks,
            panels=[
                Panel(
                    f"Served bytes{of_what}, by clients", "seconds", "per cent",
                    share_lines(evidence.clients, classes, evidence.lasted_s, step_s),
                    [(self.guaranteed[name], tone) for tone, name in enumerate(classes)],
                )
            ],
            tables=[self._table(evidence, got)],
            csv_head=CSV_HEAD,
            csv_rows=csv_rows(evidence, list(self.sizes), step_s),
            notes=[f"The generator itself was late by {evidence.late_p99_ms:.1f} ms (p99)."],
        )  # fmt: skip

    def _table(self, evidence: Evidence, got: Mapping[str, float]) -> Table:
        printed = {row.class_name: row for row in published.TABLE_1} if self.table_1 else {}
        head = ["class", "guaranteed", "requests", "served", "% served", "share of bytes, %"]
        head += ["paper: % served", "paper: # served"] if printed else []
        rows = []
        for name in self.sizes:
            served, asked = served_of(evidence.clients, name)
            guarantee = "always" if name == self.always else f"{self.guaranteed[name]:g} %"
            share = "" if name == self.always else f"{got[name]:.2f}"
            row = [name, guarantee, str(asked), str(served), f"{100 * served / max(asked, 1):.1f}", share]
            if printed:
                theirs = printed[name]
                small = self.table_1 == "16k"
                row += [
                    f"{theirs.percent_16k if small else theirs.percent_128k:.1f}",
                    str(theirs.served_16k if small else theirs.served_128k),
                ]
            rows.append(row)
        return Table("Table 1, ours beside the paper's" if printed else "The whole run", head, rows)


_FIVE = {"/a": 35.0, "/b": 25.0, "/c": 20.0, "/d": 12.0, "/e": 8.0}
_FIVE_ASKED = {"/a": 0.55, "/b": 0.40, "/c": 0.35, "/d": 0.35, "/e": 0.35}
_REST = {"/b": 30.0, "/c": 30.0, "/d": 20.0, "/e": 20.0}
_ALIKE = {"/a": 0.4, "/b": 0.4, "/c": 0.4, "/d": 0.4, "/e": 0.4}


def _figure_4(name: str, kind: str, pipe_bps: float, size: int) -> FixedShares:
    return FixedShares(
        name,
        "figure 4",
        f"Five classes with fixed shares, pages of {kind.upper().removesuffix('K')} KB",
        f"The paper sent {published.FIGURE_4_RATES[kind]} requests per second and shows lines that fluctuate around "
        "the shares; it prints no numbers.",
        pipe_bps,
        dict.fromkeys(_FIVE, size),
        _FIVE_ASKED,
        _FIVE,
    )


def _table_1(name: str, kind: str, pipe_bps: float, size: int) -> FixedShares:
    return FixedShares(
        name,
        "table 1",
        f"One class always, four divide the rest, pages of {kind.upper().removesuffix('K')} KB",
        "The paper's server accepted all of A and denied about "
        f"{'750' if kind == '16k' else '500'} requests of the others.",
        pipe_bps,
        dict.fromkeys(_ALIKE, size),
        _ALIKE,
        _REST,
        always="/a",
        table_1=kind,
    )


SHARES_16K = _figure_4("shares-16k", "16k", MB, 16 * KB)
SHARES_128K = _figure_4("shares-128k", "128k", 8 * MB, 128 * KB)
ALWAYS_16K = _table_1("always-16k", "16k", MB, 16 * KB)
ALWAYS_128K = _table_1("always-128k", "128k", 8 * MB, 128 * KB)

_SIZES = {"/16k": 16 * KB, "/32k": 32 * KB, "/64k": 64 * KB}
SIZES = FixedShares(
    "sizes",
    "figure 5",
    "Shares are of bytes: pages of 16, 32 and 64 KB",
    "In the paper the bytes match the specification better than the requests do, and the larger file gets a "
    "disproportionate amount; it prints no numbers.",
    4 * MB,
    _SIZES,
    {name: OVERLOAD * size / sum(_SIZES.values()) for name, size in _SIZES.items()},
    {"/16k": 10.0, "/32k": 35.0, "/64k": 55.0},
)
