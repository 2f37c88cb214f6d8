"""Verdicts of ``./dev bench loadgen``, on synthetic samples with known results."""

from __future__ import annotations

import contextlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.bench import loadgen as bench
from tests.bench import wrk
from tests.bench.contenders import Contender
from tests.bench.loadgen_rounds import CLOSED, OPEN, WRK, Seen
from tests.bench.loadgen_verdicts import difference, judged, missed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Found = dict[str, list[Seen]]
ROUNDS = 12


def _rounds(p50_ms: float, p99_ms: float, *, off_wire_ms: float = 0.0, **more: float) -> list[Seen]:
    """Around these, a little different in each."""
    return [
        Seen(
            10_000.0, p50_ms + shift, p99_ms + shift,
            wire_p50_ms=p50_ms + shift - off_wire_ms, wire_p99_ms=p99_ms + shift - off_wire_ms, late_p99_ms=0.5, **more,
        )
        for shift in (0.002 * (at - ROUNDS // 2) for at in range(ROUNDS))
    ]  # fmt: skip


def _equal() -> Found:
    return {WRK: _rounds(0.2, 1.0), CLOSED: _rounds(0.2, 1.0), OPEN: _rounds(0.2, 1.0)}


def test_equal_samples_meet_every_goal_and_that_is_settled() -> None:
    verdicts = judged(_equal())
    assert len(verdicts) == 2 * (2 * 2 * 2 + 4)  # calm and all; two ways to count, percentiles, loops; the wire
    assert all(verdict["met"] for verdict in verdicts)
    assert all(verdict.get("settled", True) for verdict in verdicts)
    assert missed(verdicts) == []


@pytest.mark.parametrize("name", [CLOSED, OPEN])
def test_a_different_p99_is_missed_where_it_differs_and_nowhere_else(name: str) -> None:
    verdicts = judged(_equal() | {name: _rounds(0.2, 1.5)})
    figures = missed(verdicts)
    assert figures == [
        f"calm rounds, {how}, {name}, p99 beside wrk" for how in ("each by its own word", "both on the wire")
    ]
    assert all(verdict["settled"] for verdict in verdicts if verdict["figure"] in figures)


def test_a_different_p50_is_missed() -> None:
    assert all("p50 beside wrk" in figure for figure in missed(judged(_equal() | {CLOSED: _rounds(0.5, 1.0)})))
    assert missed(judged(_equal() | {CLOSED: _rounds(0.5, 1.0)}))


def test_what_the_wire_denies_is_missed_although_both_say_the_same() -> None:
    found = _equal() | {CLOSED: _rounds(0.2, 1.0, off_wire_ms=0.3)}
    figures = missed(judged(found))
    assert figures[-2:] == [f"calm rounds, {CLOSED}, {percent} beside the wire" for percent in ("p50", "p99")]
    assert not any("own word" in figure for figure in figures)


def test_differences_within_a_tenth_or_a_fifth_of_a_millisecond_are_none() -> None:
    assert difference([10.0] * 9, [10.9] * 9).met
    assert not difference([10.0] * 9, [11.1] * 9).met
    assert difference([0.1] * 9, [0.29] * 9).met
    assert not difference([0.1] * 9, [0.31] * 9).met


def test_samples_that_are_far_apart_in_themselves_settle_nothing() -> None:
    theirs, ours = [0.5, 2.5] * 6 + [1.0], [0.4, 2.6] * 6 + [1.0]
    found = difference(theirs, ours)
    assert found.met
    assert not found.settled


def test_restless_rounds_do_not_count_unless_nearly_all_are() -> None:
    slow = _rounds(0.2, 9.0, stood_still=0.1)
    calm_ones = _equal()
    some = {name: seen + (slow if name == CLOSED else []) for name, seen in calm_ones.items()}
    assert missed(judged(some)) == []
    assert any(not verdict["met"] for verdict in judged(some) if not verdict["counts"])
    assert missed(judged(calm_ones | {CLOSED: slow}))  # too few are calm: all count


class _Rounds:
    """Instead of measuring."""

    def __init__(self, *_: object) -> None: ...

    def trace(self, *_: object) -> str:
        return "trace"

    def from_trace(self, *_: object) -> Seen:
        return Seen(8000.0, 0.1, 1.0, late_p99_ms=0.5)


@contextlib.contextmanager
def _nothing(*_: object) -> Iterator[Contender]:
    yield Contender("qosweb", "0", 1, 1)


@pytest.mark.parametrize(("p99_ms", "code"), [(1.0, 0), (1.5, 1)])
def test_a_missed_goal_sets_the_exit_code(
    p99_ms: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _equal() | {CLOSED: _rounds(0.2, p99_ms)}
    for name, instead in (
        ("running", _nothing),
        ("Calm", _nothing),
        ("Rounds", _Rounds),
        ("_compare", lambda *_: bench.Compared(20_000.0, 20_000.0, found)),
    ):
        monkeypatch.setattr(bench, name, instead)
    monkeypatch.setattr(shutil, "which", lambda _: "wrk")
    monkeypatch.setattr(wrk, "version", lambda: "4.2.0")
    out = tmp_path / "loadgen.json"
    assert bench.main(["--out", str(out)]) == code
    assert ("goals missed: " in capsys.readouterr().out) == bool(code)
    document: dict[str, Any] = json.loads(out.read_text())
    assert document["versions"]["wrk"] == "4.2.0"


@pytest.mark.parametrize(
    ("script", "known"), [("echo 'wrk 4.2.0 [epoll] Copyright'; exit 1", "4.2.0"), ("echo hello", "unknown"), ("", "")]
)
def test_the_version_of_wrk(script: str, known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if script:
        program = tmp_path / "wrk"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert wrk.version() == known
