"""Settings for the whole suite: examples of Hypothesis, how tests are spread over workers, and the summary."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer

# Fixed examples: a run that fails fails again. `pytest --hypothesis-seed=random` looks for new ones.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")

TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slowest-files", type=int, default=0, metavar="N", help="list the N files that took longest")
    parser.addoption("--write-golden", action="store_true", help="write golden bytes anew: for formats that are new")


@pytest.fixture
def write_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--write-golden"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long start first, so that no worker is left with one of them at the end."""
    for item in items:
        if item.get_closest_marker("timing") and "pytest.mark.timing" not in item.path.read_text():
            raise pytest.UsageError(f"{item.path} has to say pytest.mark.timing itself: ./dev test looks for that")
    items.sort(key=lambda item: item.get_closest_marker("long") is None and unit(item.nodeid).endswith(".py"))


# Workers


def unit(nodeid: str) -> str:
    """What one worker runs, in its order: a file, or all files of a folder that has fixtures of its own.

    These fixtures are costly: a Spark session.
    """
    file = nodeid.partition("::")[0]
    folder = (TESTS.parent / file).parent
    return str(folder) if folder != TESTS and (folder / "conftest.py").exists() else file


class WholeFiles(LoadScopeScheduling):  # type: ignore[misc]  # has no types
    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    config.option.loadscopereorder = False  # the order of collection, see above
    return WholeFiles(config, log)


def pytest_xdist_auto_num_workers() -> int:
    """Four on two processors: tests wait for much of their time. With three, two processors were idle for 30 %."""
    return 2 * len(os.sched_getaffinity(0))


# Summary


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [report for found in terminalreporter.stats.values() for report in found]
    skipped = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in reports
        if isinstance(report, pytest.TestReport) and report.skipped and isinstance(report.longrepr, tuple)
    )
    if skipped:
        terminalreporter.section("tests that were skipped")
        for reason, count in sorted(skipped.items()):
            terminalreporter.line(f"{count} skipped: {reason}")
    if wanted := config.getoption("slowest_files"):
        took_s: defaultdict[str, float] = defaultdict(float)
        for report in reports:
            if isinstance(report, pytest.TestReport):
                took_s[report.nodeid.partition("::")[0]] += report.duration
        terminalreporter.section("slowest files")
        for file, seconds in sorted(took_s.items(), key=lambda one: -one[1])[:wanted]:
            terminalreporter.line(f"{seconds:7.1f} s  {file}")
