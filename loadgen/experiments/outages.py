"""Checks for experiments in which nodes join, fail or leave: stages between events, and what has to hold in each stage.

Pure. The loads and events are in `scale_out`, `partition` and `successive_failures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments.findings import Check, Table
from loadgen.experiments.judging import failures, farthest, shares, used

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from loadgen.experiments.evidence import Evidence, ObservedRequest

FAILURES_WITHIN_S = 5.0  # of a kill: by then all nodes have noticed


class OutageStage(NamedTuple):
    """A part of a load during which the set of nodes did not change."""

    name: str
    begin_s: float
    end_s: float
    pipe_bps: float

    @property
    def span_s(self) -> tuple[float, float]:
        return self.begin_s, self.end_s


def judge_floors(
    rows: Sequence[ObservedRequest],
    stage: OutageStage,
    floors: Mapping[str, float],
    points: float,
    witness: str,
    always: str = "",
) -> Check:
    """Classes that demand more than their lower bounds get at least these, of what ``always`` leaves."""
    found = shares(rows, *stage.span_s, sorted({row.class_name for row in rows} - {always}))
    short = {name: found.get(name, 0.0) - floor for name, floor in floors.items()}
    bounds = ", ".join(f"{name} {floor:g} %" for name, floor in floors.items())
    return Check(
        f"{witness}, {stage.name}: at least {bounds} of the bytes, less {points:g} points",
        all(value >= -points for value in short.values()),
        ", ".join(f"{name} {found.get(name, 0.0):.1f}" for name in floors),
    )


def judge_fixed(
    rows: Sequence[ObservedRequest], stage: OutageStage, guaranteed: Mapping[str, float], points: float, witness: str
) -> Check:
    found = shares(rows, *stage.span_s, list(guaranteed))
    name, off = farthest(found, guaranteed)
    return Check(
        f"{witness}, {stage.name}: each share within {points:g} points",
        any(found.values()) and abs(off) <= points,
        ", ".join(f"{one} {value:.1f}" for one, value in found.items()) + f"; farthest {name} {off:+.2f}",
    )


def judge_capacity(rows: Sequence[ObservedRequest], stage: OutageStage, least_percent: float, witness: str) -> Check:
    fill = used(rows, stage.span_s, stage.pipe_bps)
    return Check(
        f"{witness}, {stage.name}: {least_percent:g} % or more of {stage.pipe_bps / (1 << 20):.2f} MB/s are used",
        fill >= least_percent,
        f"{fill:.1f} %",
    )


def judge_losses(clients: Sequence[ObservedRequest], kills_s: Sequence[float]) -> Check:
    """Only requests redirected to a killed node fail, around the time of the kill."""
    failed = failures(clients)
    astray = [
        row
        for row in failed
        if not row.was_sent_on or not any(-0.5 <= row.ended_s - kill_s <= FAILURES_WITHIN_S for kill_s in kills_s)
    ]
    first = f"; such as {astray[0].reason} at {astray[0].ended_s:.1f} s" if astray else ""
    return Check(
        f"clients: only requests redirected to a killed node are lost, within {FAILURES_WITHIN_S:g} s of its end",
        not astray,
        f"{len(failed)} of {len(clients)} failed, {len(astray)} of them elsewhere or at another time{first}",
    )


def stage_table(parts: Sequence[tuple[Evidence, OutageStage]], classes: Sequence[str]) -> Table:
    rows = []
    for evidence, stage in parts:
        found = shares(evidence.clients, *stage.span_s, classes)
        rows.append(
            [stage.name, f"{stage.begin_s:.1f} to {stage.end_s:.1f}", f"{stage.pipe_bps / (1 << 20):.2f}",
             f"{used(evidence.clients, stage.span_s, stage.pipe_bps):.1f}", *(f"{found[name]:.1f}" for name in classes)]
        )  # fmt: skip
    return Table("By stage, as clients saw it", ["stage", "seconds", "MB/s", "used, %", *classes], rows)
