"""The experiment of figure 4: the paper's curves at a small scale, criteria that can fail, and the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from cluster.reports.bottleneck import LINK, RECEIVER, BottleneckRun
from cluster.runtime.commands.experiment import (
    judge_processes,
    judge_runs,
    paper_buffer_len,
    sweep,
    write_csv,
    write_page,
    write_plot,
)
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
    write_page(judge_runs(runs), runs, ["reports.png"], tmp_path / "reports.html")
    assert (tmp_path / "reports.csv").read_text().startswith("bottleneck,semantic,buffer_len,load,throughput")
    assert (tmp_path / "reports.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "reports.html").read_text()
    assert "plain reliable broadcast is flat" in page
    assert "<td>semantic, 16 buffers<td>" in page


def test_five_processes_deliver_the_load() -> None:
    run = run_case(SEMANTIC, SLOW, 2.0)
    assert len(run.rates_per_s) == 3 * 4
    assert run.median_per_s > 0


def process_runs(stopped: tuple[float, ...]) -> list[ProcessRun]:
    return [
        ProcessRun(transport, disturbance, rates)
        for transport in (SEMANTIC, RELIABLE, TOTAL_ORDER)
        for disturbance, rates in ((NONE, (100.0,) * 20), (SLOW, (100.0,) * 20), (STOPPED, stopped))
    ]


def outcomes(stopped: tuple[float, ...]) -> list[bool | None]:
    """Of the median, the worst tenth and the lowest half second beside a slow member, then beside a stopped one."""
    return [criterion.holds for criterion in judge_processes(process_runs(stopped))]


def test_a_slow_member_that_holds_up_the_others_fails_the_criterion() -> None:
    assert outcomes((100.0,) * 20) == [True, True, None] * 2
    assert outcomes((20.0,) * 20) == [True, True, None, False, False, None]


def test_a_fifth_of_the_time_without_reports_fails_although_the_median_does_not_see_it() -> None:
    assert outcomes((100.0,) * 16 + (0.0,) * 4) == [True, True, None, True, False, None]


def latency_runs(semantic_s: dict[int, tuple[float, float]], throughput: dict[int, float]) -> list[BottleneckRun]:
    """Runs at twice the bottleneck's load; latencies with a slow receiver and a narrow link by buffer size."""
    return [
        BottleneckRun(where, semantic, count, 2.0, throughput[count] if semantic else 1.0, seconds, 0.0)
        for count, latencies in semantic_s.items()
        for semantic in (False, True)
        for where, seconds in zip((RECEIVER, LINK), latencies if semantic else (1.0, 0.5), strict=True)
    ]


def test_a_buffer_size_at_which_latency_is_not_halved_is_not_left_out() -> None:
    runs = latency_runs({32: (0.5, 0.25), 128: (0.4, 0.4)}, {32: 1.5, 128: 2.0})
    assert paper_buffer_len(runs) == 32
    *_, plain, as_in_the_paper, all_sizes = judge_runs(runs)
    assert (plain.holds, as_in_the_paper.holds, all_sizes.holds) == (True, True, False)
    assert all_sizes.measured == "0.50 with 32 buffers, 1.00 with 128 buffers"
