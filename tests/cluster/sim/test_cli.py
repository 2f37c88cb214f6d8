"""`python -m cluster sim`: option errors and output."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from cluster.runtime.commands.main import main
from cluster.sim import command_line
from cluster.sim.mutant_catalogue import MUTANTS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--nodes", "9"], "expected 1 to 7 nodes, lowest first, not '9'"),
        (["--nodes", "5..3"], "expected 1 to 7 nodes, lowest first, not '5..3'"),
        (["--nodes", "three"], "expected a number or a range such as 3..7, not 'three'"),
        (["--seeds", "0"], "expected an integer of at least 1, not '0'"),
        (["--seed", "-1"], "expected an integer of at least 0, not '-1'"),
        (["--minutes", "soon"], "expected a number of minutes above 0, not 'soon'"),
        (["--narrate"], "--narrate needs --seed"),
        (["--diagram", "x.svg"], "--diagram needs --seed or --story"),
        (["--story", "crash", "--diagram", "x.svg", "--narrate"], "do not combine it with --narrate"),
        (["--story", "crash", "--diagram", "/nowhere/x.svg"], "--diagram /nowhere/x.svg: No such file"),
        (["--trace", "x"], "--trace needs --seed"),
        (["--seed", "1", "--seeds", "2"], "--seed runs one seed"),
        (["--bulk", "--interim"], "--reports, --interim, --bulk and --data are kinds of run"),
        (["--data", "--seed", "1", "--shrink"], "--shrink does not work with --data"),
        (["--story", "of the dog"], "invalid choice"),
    ],
)
def test_wrong_options_are_named(options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["sim", *options])
    assert stopped.value.code == 2
    assert complaint in capsys.readouterr().err


def test_the_multicast_transport_is_explored_and_narrated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--bulk", "--seeds", "2"]) == 0
    assert "a message was accepted" in capsys.readouterr().out
    assert main(["sim", "--bulk", "--seed", "1", "--narrate"]) == 0
    narrated = capsys.readouterr().out
    assert "order: Grant(" in narrated
    assert "seed 1: no violation" in narrated


def test_exploring_shows_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--seeds", "3", "--nodes", "3"]) == 0
    shown = capsys.readouterr().out
    assert "what happened in the runs" in shown
    assert "clauses exercised" in shown
    assert "no violation, and every run was live after the faults healed" in shown


def test_one_seed_is_narrated_and_traced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["sim", "--seed", "3", "--nodes", "3"]
    shown = {}
    for level in command_line.LEVELS:
        assert main([*run, "--narrate", level]) == 0
        shown[level] = capsys.readouterr().out
    assert "DVS-GPSND" in shown["messages"]
    assert "start_change(" in shown["views"]
    assert "DVS-NEWVIEW" in shown["views"]
    assert "DVS-GPSND" not in shown["views"]
    assert "primary view " in shown["summary"]
    assert shown["summary"].count("\n") <= 60
    assert shown["summary"].count("\n") < shown["views"].count("\n") < shown["messages"].count("\n")
    assert main([*run, "--trace", str(tmp_path / "trace"), "--narrate"]) == 0
    assert capsys.readouterr().out == shown["summary"]
    assert main(["sim", "--seed", "3", "--nodes", "3", "--shrink"]) == 0
    assert "there is nothing to shrink" in capsys.readouterr().out


@pytest.mark.parametrize("seed", [3, 4, 9])
def test_check_accepts_a_simulated_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    trace = tmp_path / "trace"
    assert main(["sim", "--seed", str(seed), "--trace", str(trace)]) == 0
    steps = re.search(r"no violation, (\d+) actions", capsys.readouterr().out)
    assert steps is not None
    lines = trace.read_bytes().splitlines(keepends=True)
    assert any(b'"Crashed"' in line for line in lines)
    assert len(lines) == int(steps[1]) + 1  # plus a first line that names the founder
    assert main(["check", str(trace)]) == 0
    assert f"{steps[1]} actions of 1 traces: all specifications hold" in capsys.readouterr().out
    at = next(i for i in range(len(lines) // 2, len(lines)) if b'"Deliver"' in lines[i])
    trace.write_bytes(b"".join(lines[:at] + lines[at + 1 :]))
    assert main(["check", str(trace)]) == 1
    assert "not enabled" in capsys.readouterr().out


def test_mutants_are_hunted_from_their_known_seed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rare = next(mutant for mutant in MUTANTS if mutant.name == "the cut of a process that moved on is lost")
    assert rare.shown_by > command_line.MUTANT_SEEDS
    monkeypatch.setitem(command_line.KINDS, "stack", command_line.KINDS["stack"]._replace(mutants=(rare,)))
    assert main(["sim", "--mutants"]) == 0
    assert f"seed {rare.shown_by}\n\n1 of 1 caught" in capsys.readouterr().out
    assert main(["sim", "--mutants", "--seed-from", "0", "--seeds", "1"]) == 1
    assert "0 of 1 caught, each within 1 seeds" in capsys.readouterr().out


def test_a_scenario_is_narrated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--story", "broadcast"]) == 0
    assert "BRCV" in capsys.readouterr().out


def test_help_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "sim" in capsys.readouterr().out
