"""RunLog: every position is found, also after cuts and truncation."""

from __future__ import annotations

import pytest

from cluster.entries import pack_bodies
from cluster.names import Label, ProcessId, ViewId
from cluster.run_log import Run, RunLog

VIEW = ViewId(3, "v")
A = ProcessId("a")
LENGTHS = (3, 1, 4, 1, 5)


def _log() -> RunLog:
    """Positions 10, 11, ..., in runs of these lengths; the body of each entry is its position."""
    log = RunLog(10)
    for length in LENGTHS:
        entries = pack_bodies([b"%d" % (log.end + i) for i in range(length)])
        log.append(Run(VIEW, log.end, A, entries))
    return log


def _check(log: RunLog) -> None:
    for position in range(log.base, log.end):
        run, offset = log.find(position)
        assert (run.seqno + offset, run.entries[offset].body) == (position, b"%d" % position)
        assert log[position - log.base] == (Label(VIEW, position, A), run.entries[offset])
    for position in (log.base - 1, log.end):
        with pytest.raises(IndexError):
            log.find(position)


def test_every_position_is_found() -> None:
    _check(_log())


@pytest.mark.parametrize("position", range(10, 25))
def test_every_position_is_found_after_a_cut(position: int) -> None:
    log = _log()
    log.cut(position)
    assert (log.base, log.end) == (10, min(24, position))
    _check(log)


@pytest.mark.parametrize("position", range(10, 25))
def test_every_position_is_found_after_the_beginning_was_dropped(position: int) -> None:
    log = _log()
    log.drop_below(position)
    assert log.base <= position
    _check(log)


@pytest.mark.parametrize("position", range(10, 25))
def test_a_range_as_runs_and_as_entries(position: int) -> None:
    log = _log()
    for end in range(10, 25):
        runs = log.runs(position, end)
        assert [entry.body for run in runs for entry in run.entries] == [b"%d" % at for at in range(position, end)]
        assert [pair for run in runs for pair in run.labelled()] == list(log.since(position, end))
    assert log.runs(position) == log.runs(position, 24)


def test_runs_are_dropped_as_a_whole() -> None:
    with pytest.raises(IndexError):
        _log().runs(9, 12)


def test_one_run_alone() -> None:
    log = RunLog(7)
    log.append(Run(VIEW, 7, A, pack_bodies([b"7", b"8"])))
    _check(log)
