"""Step progress: a line for each step, and nothing if it is quiet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from qosweb.analytics.spark.progress import StepProgress

if TYPE_CHECKING:
    import pytest


def test_each_step_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = StepProgress(quiet=False)
    progress.show_step("starting")
    progress.show_step("judging")
    said = capsys.readouterr().err
    assert re.sub(r"\(\d+ s", "(0 s", said) == "qosweb: starting (0 s)\nqosweb: judging (0 s)\n"
    assert [line.split(" s  ")[1] for line in progress.timings().splitlines()] == ["starting", "judging", "total"]
    assert not progress.has_bar, "standard error is no terminal"


def test_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    StepProgress(quiet=True).show_step("starting")
    assert capsys.readouterr().err == ""
