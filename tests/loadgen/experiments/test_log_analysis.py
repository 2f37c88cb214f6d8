"""What the log analysis adds to an experiment's findings, and what happens if the analysis cannot run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from loadgen.experiments.catalogue import CATALOGUE
from loadgen.experiments.findings import FAIL, PASS, Check, ExperimentFindings
from loadgen.experiments.log_analysis import add, analyse
from loadgen.experiments.series import CompletedExperiment
from loadgen.experiments.workbench import Size

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = [{"rule": "no request is counted twice", "outcome": "held", "reason": "5 requests"}]


def _findings() -> ExperimentFindings:
    return ExperimentFindings("Seen.", [Check("it was seen", True, "yes")])


def _report(kind: str, outcome: str) -> dict[str, object]:
    promise = {"rule": "set lifetime = 1s", "kind": kind, "outcome": outcome, "reason": "the longest wait"}
    return {"name": "x", "outcome": outcome, "promises": [promise], "cluster": CLUSTER}


@pytest.mark.parametrize(
    ("kind", "outcome", "quick", "verdict"),
    [
        ("share at least", "held", False, PASS),
        ("share at least", "not tested", False, PASS),
        ("share at least", "violated", False, FAIL),
        ("share at least", "violated", True, FAIL),
        ("lifetime", "violated", False, FAIL),
        ("lifetime", "violated", True, PASS),
    ],
)
def test_violated_guarantee_fails_the_experiment(kind: str, outcome: str, quick: bool, verdict: str) -> None:
    findings = _findings()
    add(findings, _report(kind, outcome), "x/report.html", quick=quick)
    assert findings.verdict == verdict
    assert [outcome, "set lifetime = 1s", "the longest wait"] in findings.tables[0].rows
    told = [check.actual for check in findings.checks] + findings.notes
    assert any("the longest wait" in text for text in told) == (outcome == "violated")


def test_unreadable_logs_fail_the_experiment() -> None:
    findings = _findings()
    add(findings, {"name": "x", "error": "no request could be read"}, "x")
    assert findings.verdict == FAIL


def test_missing_java_is_noted_and_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real command, in an environment in which Spark's own modules cannot be imported."""
    experiment = CATALOGUE[0]
    (tmp_path / experiment.name).mkdir()
    (tmp_path / experiment.name / "n1.access.log").write_text('{"ts":1}\n')
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "py4j.py").write_text("raise ModuleNotFoundError('no py4j', name='py4j')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(hidden), *sys.path]))
    findings, said = _findings(), list[str]()
    analyse([CompletedExperiment(experiment, findings, None, 1.0, "None.")], tmp_path, Size(quick=True), said.append)
    assert findings.verdict == PASS
    assert "The logs were not analysed: " in findings.notes[0]
    assert "pip install" in findings.notes[0]
    assert "not analysed" in said[-1]
