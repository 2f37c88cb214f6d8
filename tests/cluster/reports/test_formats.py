"""Golden bytes of the frames on report streams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cluster.names import ProcessId, make_view
from cluster.reports.frames import decode_report_frame, encode_report_frame
from cluster.reports.messages import ForwardedWindow, Greeting, Origin, OwnWindow, Report, ReportFrame, Taken
from tests.support.golden import Case, assert_all_types_occur, check

if TYPE_CHECKING:
    import pytest

DATA = Path(__file__).parent / "data"
A, B = ProcessId("a", 7), ProcessId("b")
X, Y = Origin(A, 2), Origin(B, 1)
VIEW_ID = make_view(3, {A: 4, B: 1_000}).id
REPORTS = (Report(5, "load", b"0.25", 12), Report(70_000, "health", b"", 0))
FRAMES: list[ReportFrame] = [
    OwnWindow(4, 70_000, 3, REPORTS),
    OwnWindow(4, 9, 9, ()),
    ForwardedWindow(X, 70_000, (A, B), 0, 70_000, REPORTS),
    Taken(X, 70_000),
    Greeting(VIEW_ID, 2, 900, ((X, 70_000), (Y, 0))),
]


def test_frames_keep_their_bytes(pytestconfig: pytest.Config) -> None:
    cases = {
        f"{number}-{type(frame).__name__}": Case(frame, encode_report_frame, decode_report_frame)
        for number, frame in enumerate(FRAMES)
    }
    check(DATA / "frames.txt", cases, write=pytestconfig.getoption("--write-golden"))


def test_every_type_has_golden_bytes() -> None:
    assert_all_types_occur([ReportFrame], FRAMES)
