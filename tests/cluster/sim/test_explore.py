"""Seeds with the toy process: runs are live, the wrong ones fail, a failure shrinks, the same seed is the same run."""

from __future__ import annotations

from collections import Counter
from functools import partial

from cluster.sim.explore import ExplorationReport, SeedTask, explore
from cluster.sim.mutant_hunt import MutantResult, hunt, row
from cluster.sim.mutation import Mutant
from cluster.sim.narrate import Detail, Narrator
from cluster.sim.plan import RunPlan, make_plan
from cluster.sim.run import RunResult, run
from cluster.sim.shrink import shrink
from tests.cluster.sim.toy import Toy

FORGETS = partial(Toy, fault="forget")
TWICE = partial(Toy, fault="twice")


def test_many_seeds_are_live_and_meet_many_faults() -> None:
    met: Counter[str] = Counter()
    for seed in range(40):
        outcome = run(make_plan(seed), Toy)
        assert outcome.failure is None, outcome.failure.line(seed)
        met.update(outcome.sometimes.keys())
    for what in ("Partition", "Cuts", "Crash", "CrashInside", "Pause", "torn last write", "stalled frames arrive late"):
        assert met[what], what


def test_the_same_seed_is_the_same_run() -> None:
    def story(seed: int) -> list[str]:
        lines: list[str] = []
        run(make_plan(seed), Toy, listener=Narrator(lines.append, Detail.EVERYTHING))
        return lines

    assert story(5) == story(5)
    assert story(5) != story(6)


def first_failure(make: partial[Toy]) -> tuple[RunPlan, RunResult]:
    for seed in range(200):
        outcome = run(make_plan(seed), make)
        if outcome.failure is not None:
            return make_plan(seed), outcome
    raise AssertionError("no seed fails")


def test_a_process_that_answers_twice_is_caught() -> None:
    plan, outcome = first_failure(TWICE)
    assert outcome.failure is not None
    line = outcome.failure.line(plan.seed)
    assert line.startswith(f"SEED={plan.seed} InvalidEffect event ")
    assert line.endswith(f"replay: python -m cluster sim --seed {plan.seed} --narrate")


def test_a_failure_shrinks_to_what_it_needs() -> None:
    plan, outcome = first_failure(FORGETS)
    assert outcome.failure is not None
    kind = outcome.failure.kind

    def fails(smaller: RunPlan) -> bool:
        failure = run(smaller, FORGETS).failure
        return failure is not None and failure.kind == kind

    small = shrink(plan, fails, runs_max=150)
    assert fails(small)
    assert len(small.faults) <= 2
    assert len(small.submissions) <= 2
    assert small == shrink(plan, fails, runs_max=150)


def run_toy(task: SeedTask, make: type[Toy] | partial[Toy] = Toy) -> RunResult:
    return run(make_plan(task.seed, task.nodes_min, task.nodes_max), make)


def test_exploring_stops_at_the_first_failure_and_when_the_time_is_up() -> None:
    told: list[str] = []
    tasks = [SeedTask(seed, 3, 4) for seed in range(10)]
    good = explore(iter(tasks), lambda some: map(run_toy, some), goes_on=lambda: True, tell=told.append, tell_every=5)
    assert (good.runs, good.failed, len(told)) == (10, None, 2)
    assert "Partition" in good.coverage() or "Crash" in good.coverage()
    none = explore(iter(tasks), lambda some: map(run_toy, some), goes_on=lambda: False, tell=told.append)
    assert none.runs == 1
    bad = explore(
        iter(tasks), lambda some: (run_toy(task, TWICE) for task in some), goes_on=lambda: True, tell=told.append
    )
    assert bad.failed is not None
    assert bad.runs <= 10


def test_clauses_that_were_never_met_are_shown() -> None:
    report = ExplorationReport()
    report.add(RunResult(1, None, 1, 1, 1.0, {"Crash": 2}, {"TO deliver": 3, "TO never": 0}))
    assert "1 of 2 clauses exercised" in report.coverage()


def test_a_mutant_is_hunted_until_it_is_caught_and_taken_back() -> None:
    mutant = Mutant("answers twice", "tests.cluster.sim.toy", '2 if self.fault == "twice" else 1', "2", "two answers")
    caught = hunt(mutant, range(50), lambda seed: run_toy(SeedTask(seed, 3, 3)))
    assert caught.by == "InvalidEffect"
    assert run_toy(SeedTask(caught.seeds - 1, 3, 3)).failure is None
    assert "nobody" in row(MutantResult("survives", "toy", "", 50))
