"""Runs a series of experiments one after the other, and writes their files, verdicts and one report."""

from __future__ import annotations

import csv
import os
import platform
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from loadgen.experiments.findings import Check, ExperimentFindings
from loadgen.experiments.html_report import page
from loadgen.experiments.log_analysis import analyse
from loadgen.experiments.plots import draw
from loadgen.experiments.processes import CannotRun
from loadgen.experiments.workbench import Workbench
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from loadgen.experiments.experiment import Experiment
    from loadgen.experiments.workbench import Size


class CompletedExperiment(NamedTuple):
    """An experiment that was run or skipped."""

    experiment: Experiment
    findings: ExperimentFindings
    picture: Path | None
    lasted_s: float
    criterion: str
    spread: str = ""  # of the load, if there were several targets
    not_applied: tuple[str, ...] = ()  # options without effect in this experiment, with reasons


def carry_out(
    experiments: Sequence[Experiment], out: Path, size: Size, say: Callable[[str], None], *, analysis: bool = False
) -> list[CompletedExperiment]:
    """Run experiments. The report is written after each, so that an interrupted series leaves its results."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None
    done: list[CompletedExperiment] = []
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    for at, experiment in enumerate(experiments):
        say(f"{experiment.name} ({at + 1} of {len(experiments)}): {experiment.title}")
        done.append(_one(experiment, out, size, lambda text: say(f"  {text}")))
        findings = done[-1].findings
        say(f"  {findings.verdict}, {done[-1].lasted_s:.0f} s: {findings.seen or findings.skipped}")
        _write(done, out, size, begun)
    if analysis:
        analyse(done, out, size, say)
        _write(done, out, size, begun)
    return done


def _one(experiment: Experiment, out: Path, size: Size, say: Callable[[str], None]) -> CompletedExperiment:
    begun_s = time.monotonic()
    not_applied = tuple(experiment.layout.not_applied(size.nodes, size.spread))
    for note in not_applied:
        say(f"note: {note}")
    bench = Workbench(experiment.name, out / experiment.name, size, say)
    try:
        findings = experiment.carry_out(bench)
    except CannotRun as error:
        findings = ExperimentFindings(
            "The experiment could not run.", [Check("the experiment can run", False, str(error))]
        )
    finally:
        bench.close()
    load = os.getloadavg()[0]
    findings.notes.append(f"Load average of the machine at the end: {load:.1f}, on {os.cpu_count()} cores.")
    spread = "" if findings.skipped else experiment.layout.spread(size.nodes, size.spread)
    if spread:
        findings.notes.append(f"The load was spread over {experiment.layout.over}: {spread}.")
    findings.notes += not_applied
    picture = None
    if findings.panels:
        picture = out / f"{experiment.name}.png"
        draw(findings.panels, picture)
    if findings.csv_rows:
        with (out / f"{experiment.name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([findings.csv_head, *findings.csv_rows])
    lasted_s, criterion = time.monotonic() - begun_s, experiment.criterion(quick=size.quick)
    return CompletedExperiment(experiment, findings, picture, lasted_s, criterion, spread, not_applied)


def document(done: Sequence[CompletedExperiment], begun: str, size: Size) -> dict[str, object]:
    """The findings as JSON data."""
    return {
        "begun": begun,
        "size": size._asdict(),
        "load_average": round(os.getloadavg()[0], 2),
        "experiments": [
            {
                "name": one.experiment.name,
                "verdict": one.findings.verdict,
                "criterion": one.criterion,
                "seen": one.findings.seen,
                "skipped": one.findings.skipped,
                "checks": msgspec.to_builtins(one.findings.checks),
                "lasted_s": round(one.lasted_s, 1),
                "spread": one.spread or None,
                "not_applied": one.not_applied,
            }
            for one in done
        ],
    }


def _write(done: Sequence[CompletedExperiment], out: Path, size: Size, begun: str) -> None:
    shape = f"{'quick, ' if size.quick else ''}durations x{size.scale:g}, pipes x{size.pipe_scale:g}, seed {size.seed}"
    about = (
        f"{begun}, Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} "
        f"at the end; {shape}. Pipe widths are configured, so the bottleneck is known; times also "
        "depend on other work of the machine."
    )
    (out / "report.html").write_text(page(done, about), "utf-8")
    text = msgspec.json.format(msgspec.json.encode(document(done, begun, size)), indent=2)
    (out / "summary.json").write_bytes(text + b"\n")
