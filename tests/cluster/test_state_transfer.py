"""State transfer: pieces have about the requested size, and reassembly gives the original."""

from __future__ import annotations

import pytest

from cluster.durable import Snapshotted
from cluster.entries import pack_bodies
from cluster.names import ProcessId, ViewId
from cluster.run_log import Run, RunLog
from cluster.state_transfer import StateTransfer, split_state

VIEW = ViewId(3, "v")
A = ProcessId("a")
LENGTHS = (1, 1, 50, 3, 400, 1)
BEGIN = 7


def _log() -> RunLog:
    log = RunLog(BEGIN)
    for length in LENGTHS:
        log.append(Run(VIEW, log.end, A, pack_bodies([b"%08d" % (log.end + i) for i in range(length)])))
    return log


@pytest.mark.parametrize("piece_bytes", [1, 64, 300, 1_000, 1_000_000])
@pytest.mark.parametrize("has_snapshot", [False, True])
def test_pieces_are_reassembled(piece_bytes: int, has_snapshot: bool) -> None:
    log = _log()
    snapshot = Snapshotted(BEGIN, (), b"s" * 500) if has_snapshot else None
    pieces = split_state(VIEW, snapshot, BEGIN, log.runs(BEGIN), piece_bytes)
    assert [(piece.piece, piece.pieces) for piece in pieces] == [(i, len(pieces)) for i in range(len(pieces))]
    for piece in pieces:
        runs = piece.runs
        assert sum(len(run.pack.packed) for run in runs) <= piece_bytes + 16 or len(runs) == runs[0].pack.count == 1
    incoming = StateTransfer(VIEW)
    for piece in pieces:
        assert not incoming.is_complete
        incoming.add(piece)
    assert incoming.is_complete
    assert incoming.fits(BEGIN, BEGIN, log.end)
    assert not incoming.fits(BEGIN, BEGIN, log.end + 1)
    assert incoming.snapshot() == snapshot
    again = RunLog(incoming.position)
    again.extend(incoming.runs)
    assert list(again.since(BEGIN)) == list(log.since(BEGIN))


def test_runs_that_fit_stay_as_they_are() -> None:
    """Runs are not unpacked on the way."""
    log = _log()
    (piece,) = split_state(VIEW, None, BEGIN, log.runs(BEGIN), 1_000_000)
    assert all(sent is held for sent, held in zip(piece.runs, log.runs(BEGIN), strict=True))


def test_an_empty_transfer_is_one_piece() -> None:
    (piece,) = split_state(VIEW, None, BEGIN, [], 100)
    incoming = StateTransfer(VIEW)
    incoming.add(piece)
    assert incoming.is_complete
    assert incoming.fits(BEGIN, BEGIN, BEGIN)
