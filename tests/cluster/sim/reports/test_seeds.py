"""Reports under mixed faults: no violation, every run complete, every clause exercised; mutants are caught."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from cluster.sim.explore import SeedTask
from cluster.sim.reports.mutant_catalogue import REPORT_MUTANTS
from cluster.sim.reports.run import run_reports_task
from tests.cluster.reports.test_broadcast import SCRIPTED
from tests.support.mutants import assert_a_seed_catches

if TYPE_CHECKING:
    from cluster.sim.mutation import Mutant
    from cluster.sim.run import RunResult

SEEDS = range(50)
FAILED_ONCE = (
    222,  # a process forgot an origin after it had told a peer what it holds
    236,  # a forwarder that learned more itself did not send it on
    3030,  # an origin that everybody had forgotten came back in part, from members that got it forwarded
    3495,  # a process got a part of the reports of its own earlier life
    24,  # a crash before the new life was on the disk: the same life began twice
    20451,  # a member that heard of an origin late passed it on to newcomers
    40943,  # a new stream, and a view change at the other side only: windows were dropped and not sent again
    40615,  # a position that was dropped made room for a report, and nobody sent it
    21929,  # an origin came back into the view and left again unheard
    31231,  # an origin crashed before newcomers had everything from the time when it was alone
    10301,  # a member crashed before anybody entered a view with it
    40132,  # a newcomer rejected a valid frame
    110,  # a process forgot a member that moved with it and had not greeted it
)
HAVE_TO_OCCUR = (
    "SlowReceiver", "NarrowLink", "Crash", "CrashInside", "TotalCrash", "DiskLoss", "Partition", "Cuts", "Leave",
    "Join", "Pause", "BrokenConnection", "frames lost with a connection", "one connection in the place of another",
    "a delivery queue was full", "a purged number was skipped", "reports were forwarded", "a report was refused",
)  # fmt: skip
WRONG = [mutant for mutant in REPORT_MUTANTS if not mutant.equivalent and mutant.name not in SCRIPTED]
SEEDS_MAX = 10


def run_seed(seed: int) -> RunResult:
    return run_reports_task(SeedTask(seed, 3, 7))


def test_fixed_seeds() -> None:
    met: Counter[str] = Counter()
    clauses: Counter[str] = Counter()
    for seed in (*SEEDS, *FAILED_ONCE):
        result = run_seed(seed)
        assert result.failure is None, f"seed {seed}: {result.failure.text}"
        met.update(result.sometimes)
        clauses.update(result.clauses)
    assert [what for what in HAVE_TO_OCCUR if not met[what]] == []
    assert [clause for clause, count in clauses.items() if not count] == []


def test_a_seed_is_one_run() -> None:
    assert run_seed(3) == run_seed(3)


@pytest.mark.parametrize("mutant", WRONG, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught(mutant: Mutant) -> None:
    assert_a_seed_catches(mutant, run_seed, SEEDS_MAX)


def test_there_are_enough_mutants() -> None:
    assert len(WRONG) >= 12
