"""Runs ``qosweb analyze`` on an experiment's access logs and adds its verdicts to the findings.

One process analyses all experiments with the same tolerances, so that Spark starts once for them. It judges by the
specification that the nodes logged, with the tolerances of the series. A violated guarantee of the policy or of the
cluster fails the experiment; the verdict "not tested" does not. A quick run only reports times (lifetimes, with 50 ms
for the scheduling of the machine, and response times) and does not judge them, because it is meant for busy machines.
If the analysis, or the Java that it needs, is missing, the report says so.
Neighbours: ``series`` calls this at the end. The analysis is known by its command line only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from loadgen.experiments.findings import Check, Table
from loadgen.experiments.judging import HEAD_BYTES, STRICT, WARM_UP_S
from loadgen.experiments.processes import environment
from loadgen.experiments.scenarios.contention import EDGE_POINTS, ContentionExperiment
from loadgen.experiments.scenarios.full_resource import LINE, PROCESSOR
from loadgen.experiments.scenarios.full_resource import POINTS as FULL_POINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from loadgen.experiments.findings import ExperimentFindings
    from loadgen.experiments.series import CompletedExperiment
    from loadgen.experiments.workbench import Size

FOLDER = "analysis"
HELD, VIOLATED, NOT_TESTED = "held", "violated", "not tested"
OF_TIMES = ("lifetime", "response time")
_START_S, _EACH_S = 300.0, 300.0
_ORDER = {VIOLATED: 0, HELD: 1, NOT_TESTED: 2}
_SHOWN_MAX = 40


def analyse(done: Sequence[CompletedExperiment], out: Path, size: Size, say: Callable[[str], None]) -> None:
    """Add the verdicts of the log analysis to the findings of each experiment."""
    logs = {one.experiment.name: out / one.experiment.name for one in done if not one.findings.skipped}
    logs = {name: folder for name, folder in logs.items() if any(folder.glob("*.access.log*"))}
    if not logs:
        return
    say(f"analysing the logs of {len(logs)} experiments")
    reports: dict[str, dict[str, Any]] = {}
    trouble = ""
    for points in sorted({_points(name) for name in logs}):
        alike = {name: folder for name, folder in logs.items() if _points(name) == points}
        found, trouble_now = _reports(_command(alike, out, size, points), _START_S + _EACH_S * len(alike))
        reports |= found
        trouble = trouble or trouble_now
    for one in done:
        name = one.experiment.name
        if name in reports:
            add(one.findings, reports[name], f"{FOLDER}/{name}/report.html", quick=size.quick)
            say(f"  {name}: {reports[name].get('outcome') or reports[name]['error']}")
        elif name in logs:
            one.findings.notes.append(f"The logs were not analysed: {trouble}")
    if trouble:
        say(f"  the logs were not analysed: {trouble}")


def _points(name: str) -> tuple[float, float]:
    """Allowed deviation of a share in a window, and in the whole run, in points."""
    if name in (PROCESSOR.name, LINE.name):
        return FULL_POINTS, FULL_POINTS
    return EDGE_POINTS if name == ContentionExperiment().name else STRICT.window_points, STRICT.whole_points


def _command(logs: dict[str, Path], out: Path, size: Size, points: tuple[float, float]) -> list[str]:
    """In a quick run, windows have too few responses to be judged; the whole run is judged."""
    of_window, of_run = points
    tolerance = ("100%", f"{max(4.0, 2 * of_run):g}%") if size.quick else (f"{of_window:g}%", f"{of_run:g}%")
    return [
        sys.executable, "-m", "qosweb", "analyze", "--each", "--json", "--out", str(out / FOLDER),
        "--tolerance", tolerance[0], "--run-tolerance", tolerance[1], "--window", f"{STRICT.window_s:g}s",
        "--skip", f"{WARM_UP_S:g}s", "--request-cost", f"{HEAD_BYTES}B",
        *(f"{name}={folder}/*.access.log*" for name, folder in logs.items()),
    ]  # fmt: skip


def _reports(command: Sequence[str], timeout_s: float) -> tuple[dict[str, dict[str, Any]], str]:
    """Run the analysis. Returns the reports by experiment, and the reason if some are missing."""
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment(), timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        said = error.stdout.decode("utf-8", "replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        return _parsed(said), f"it took longer than {timeout_s:g} s"
    reports = _parsed(ran.stdout)
    if reports and ran.returncode in (0, 1, 2):
        return reports, ""
    lines = ran.stderr.strip().splitlines()
    return reports, lines[-1].removeprefix("qosweb: ") if lines else f"it ended with exit code {ran.returncode}"


def _parsed(text: str) -> dict[str, dict[str, Any]]:
    reports = (json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}"))
    return {report["name"]: report for report in reports}


def add(findings: ExperimentFindings, report: dict[str, Any], page: str, *, quick: bool = False) -> None:
    """Add checks, a table of verdicts, and a reference to the full report."""
    if "error" in report:
        findings.checks.append(Check("the log analysis can read the logs", False, str(report["error"])))
        return
    verdicts = sorted([*report["promises"], *report["cluster"]], key=lambda one: _ORDER[one["outcome"]])
    timed = [verdict for verdict in verdicts if verdict.get("kind") in OF_TIMES]
    rest = [verdict for verdict in verdicts if verdict not in timed]
    findings.checks.append(_check("the log analysis finds no violated guarantee", rest))
    of_times = _check("the log analysis finds no waiting or service time above its guarantee", timed)
    if quick and not of_times.holds:
        findings.notes.append(f"Not judged in a quick run: {of_times.actual}")
    elif timed:
        findings.checks.append(of_times)
    rows = [[verdict["outcome"], verdict["rule"], verdict["reason"]] for verdict in verdicts[:_SHOWN_MAX]]
    findings.tables.append(Table("Verdicts of the log analysis", ["", "guarantee", ""], rows))
    findings.notes.append(f"Full report of the log analysis: {page}")


def _check(text: str, verdicts: Sequence[dict[str, Any]]) -> Check:
    counts = {outcome: sum(verdict["outcome"] == outcome for verdict in verdicts) for outcome in _ORDER}
    actual = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    broken = [verdict for verdict in verdicts if verdict["outcome"] == VIOLATED]
    if broken:
        actual += f"; {broken[0]['rule']}: {broken[0]['reason']}"
    return Check(text, not broken, actual)
