"""The experiment of figure 4: the paper's curves at a small scale, criteria that can fail, and the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from cluster.reports.bottleneck import LINK, RECEIVER, BottleneckRun
from cluster.runtime.commands.experiment import judge_processes, judge_runs, sweep, write_csv, write_page, write_plot
from cluster.runtime.commands.report_processes import (
    NONE,
    RELIABLE,
    SEMANTIC,
    SLOW,
    STOPPED,
    TOTAL_ORDER,
    ProcessRun,
    run_case,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def runs() -> list[BottleneckRun]:
    return sweep((0.5, 2.0), (16,), lambda _line: None, lasts_s=10.0)


def test_plain_broadcast_stops_at_the_bottleneck_and_semantic_broadcast_does_not(runs: list[BottleneckRun]) -> None:
    at = {(run.bottleneck, run.semantic, run.load): run for run in runs}
    for bottleneck in (RECEIVER, LINK):
        assert at[bottleneck, False, 0.5].throughput == pytest.approx(0.5, abs=0.02)
        assert at[bottleneck, False, 2.0].throughput == pytest.approx(1.0, abs=0.05)
        assert at[bottleneck, True, 2.0].throughput > 1.1
        assert at[bottleneck, True, 2.0].purged_share > 0.05
        assert at[bottleneck, False, 2.0].purged_share == pytest.approx(0.0, abs=0.05)


def test_a_criterion_fails_on_other_figures(runs: list[BottleneckRun]) -> None:
    flat = [msgspec.structs.replace(run, throughput=0.7, latency_s=1.0) for run in runs]
    assert not any(criterion.holds for criterion in judge_runs(flat))


def test_the_files_are_written(runs: list[BottleneckRun], tmp_path: Path) -> None:
    write_csv(runs, tmp_path / "reports.csv")
    write_plot(runs, tmp_path / "reports.png")
    write_page(judge_runs(runs), ["reports.png"], tmp_path / "reports.html")
    assert (tmp_path / "reports.csv").read_text().startswith("bottleneck,semantic,buffer_len,load,throughput")
    assert (tmp_path / "reports.png").read_bytes().startswith(b"\x89PNG")
    assert "plain reliable broadcast is flat" in (tmp_path / "reports.html").read_text()


def test_five_processes_deliver_the_load() -> None:
    run = run_case(SEMANTIC, SLOW, 2.0)
    assert len(run.rates_per_s) == 3 * 4
    assert run.median_per_s > 0


def test_a_slow_member_that_holds_up_the_others_fails_the_criterion() -> None:
    runs = [
        ProcessRun(transport, disturbance, (100.0, rate))
        for transport in (SEMANTIC, RELIABLE, TOTAL_ORDER)
        for disturbance, rate in ((NONE, 100.0), (SLOW, 100.0), (STOPPED, 20.0))
    ]
    assert [criterion.holds for criterion in judge_processes(runs)] == [True, False]
