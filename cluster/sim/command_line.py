"""``python -m cluster sim``: explore seeds, replay one, narrate it, shrink it, or hunt mutants.

Pure except for the files that it is told to write: the caller supplies the clock, the worker processes and the output.
"""

from __future__ import annotations

import argparse
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cluster.sim import stories
from cluster.sim.bulk.mutant_catalogue import BULK_MUTANTS
from cluster.sim.bulk.run import run_bulk_seed, run_bulk_task
from cluster.sim.data.mutant_catalogue import DATA_MUTANTS
from cluster.sim.data.plan import make_data_plan
from cluster.sim.data.run import play_data, run_data_task
from cluster.sim.diagram.drawing import draw
from cluster.sim.diagram.recorder import SpaceTimeRecorder
from cluster.sim.explore import SeedTask, explore
from cluster.sim.interim_mutant_catalogue import INTERIM_MUTANTS
from cluster.sim.mutant_catalogue import MUTANTS
from cluster.sim.mutant_hunt import hunt, row
from cluster.sim.narrate import Detail, Narrator
from cluster.sim.narrate_summary import SummaryNarrator
from cluster.sim.plan import NAMES, RunPlan, make_plan
from cluster.sim.real_stack import factory_of, play, run_task, same_failure
from cluster.sim.reports.mutant_catalogue import REPORT_MUTANTS
from cluster.sim.reports.run import run_reports_task
from cluster.sim.shrink import shrink
from cluster.sim.trace_writer import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cluster.sim.mutation import Mutant
    from cluster.sim.run import RunResult


SEEDS_DEFAULT = 200
MUTANT_SEEDS = 300
LEVELS = ("summary", "views", "messages")
DETAILS = {"views": Detail.VIEWS, "messages": Detail.LAYERS}


class RunKind(NamedTuple):
    """What a run simulates: how one seed is run, and the mutants that such runs have to catch."""

    run: Callable[[SeedTask], RunResult]
    mutants: tuple[Mutant, ...]


STACK = "stack"  # without an option
KINDS = {
    STACK: RunKind(run_task, MUTANTS),
    "interim": RunKind(run_task, INTERIM_MUTANTS),
    "reports": RunKind(run_reports_task, REPORT_MUTANTS),
    "bulk": RunKind(run_bulk_task, BULK_MUTANTS),
    "data": RunKind(run_data_task, DATA_MUTANTS),
}
WITHOUT = {"reports": ("narrate", "diagram", "shrink", "trace"), "bulk": ("diagram", "shrink", "trace", "story"),
           "data": ("diagram", "shrink", "trace", "story")}  # fmt: skip


class TaskRunner(Protocol):
    """Runs tasks in `jobs` processes and yields their results in task order."""

    def __call__(
        self, function: Callable[[SeedTask], RunResult], tasks: Iterator[SeedTask], jobs: int
    ) -> Iterator[RunResult]: ...


def _nodes(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    if not (low.isdecimal() and (high.isdecimal() if dots else not high)):
        raise argparse.ArgumentTypeError(f"expected a number or a range such as 3..7, not {text!r}")
    found = int(low), int(high or low)
    if not 1 <= found[0] <= found[1] <= len(NAMES):
        raise argparse.ArgumentTypeError(f"expected 1 to {len(NAMES)} nodes, lowest first, not {text!r}")
    return found


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, not {text!r}")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected an integer of at least 0, not {text!r}")
    return int(text)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0.0 < minutes < 1e6:
        raise argparse.ArgumentTypeError(f"expected a number of minutes above 0, not {text!r}")
    return minutes


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Test the stack in a simulated network that loses, delays and cuts, with processes that crash and restart. The "
        "specifications of the papers check every step. Exit code 0: no violation; 1: a violation."
    )
    parser.epilog = f"""\
examples:
  python -m cluster sim                                     run {SEEDS_DEFAULT} seeds
  python -m cluster sim --seeds 10000 --seed-from 50000 --jobs 2
  python -m cluster sim --seed 8241 --narrate               one seed on one page; then: --narrate views, messages
  python -m cluster sim --seed 8241 --trace T               every action in a file, for: python -m cluster check T
  python -m cluster sim --story partition --diagram partition.svg
  python -m cluster sim --mutants                           faulty layers, and which check detects each
  python -m cluster sim --reports                           reports beside the stack; also --mutants
  python -m cluster sim --interim                           the same with the interim service; also --mutants
  python -m cluster sim --bulk                              the multicast transport; also --seed, --mutants
  python -m cluster sim --data                              the data service with its clients; also --seed, --mutants"""
    many = parser.add_argument_group("many seeds")
    many.add_argument("--seeds", type=_positive, metavar="N", help=f"number of seeds to run (default {SEEDS_DEFAULT})")
    many.add_argument("--seed-from", type=_seed, metavar="S", help="first seed (default 0, or the mutant's known seed)")
    many.add_argument("--nodes", type=_nodes, default=(3, 7), metavar="3..7", help="number of nodes in a run")
    many.add_argument("--minutes", type=_minutes, metavar="M", help="time limit of the exploration")
    many.add_argument("--jobs", type=_positive, default=1, metavar="J", help="number of worker processes")
    many.add_argument(
        "--mutants", action="store_true", help="run mutants of the layers and report which check catches each"
    )
    many.add_argument("--reports", action="store_true", help="run semantically reliable broadcast, not the stack alone")
    many.add_argument(
        "--bulk", action="store_true", help="run the multicast transport for large content instead of the stack"
    )
    many.add_argument(
        "--interim", action="store_true", help="run the interim service beside the total order, with clients"
    )
    many.add_argument("--data", action="store_true", help="run the data service on top of the stack, with clients")
    one = parser.add_argument_group("one seed")
    one.add_argument("--seed", type=_seed, metavar="S", help="run only this seed")
    one.add_argument("--shrink", action="store_true", help="reduce the plan of a failing seed (with --seed)")
    one.add_argument("--trace", type=Path, metavar="FILE", help="record all actions for 'check' (with --seed)")
    story = parser.add_argument_group("fixed scenarios")
    story.add_argument("--story", choices=sorted(stories.STORIES), help="run one of the fixed scenarios")
    shown = parser.add_argument_group("output of one seed or scenario")
    shown.add_argument(
        "--narrate",
        nargs="?",
        choices=LEVELS,
        const="summary",
        help="print the run: a summary of one page (the default), the views, or also the messages",
    )
    shown.add_argument("--diagram", type=Path, metavar="FILE.svg", help="draw the run as a space-time diagram")


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    one_seed = options.seed is not None
    if sum((options.reports, options.interim, options.bulk, options.data)) > 1:
        parser.error("--reports, --interim, --bulk and --data are kinds of run: give one of them")
    kind = _kind_name(options)
    for name in WITHOUT.get(kind, ()):
        if getattr(options, name):
            parser.error(f"--{name} does not work with --{kind}")
    for name in ("narrate", "diagram", "shrink", "trace"):
        if getattr(options, name) and not one_seed and not (name in ("narrate", "diagram") and options.story):
            parser.error(f"--{name} needs --seed{' or --story' if name in ('narrate', 'diagram') else ''}")
    if options.diagram and (options.narrate or options.trace):
        parser.error("--diagram draws the run: do not combine it with --narrate or --trace")
    if one_seed and options.story:
        parser.error("--story runs a fixed scenario: do not combine it with --seed")
    if one_seed and (options.seeds is not None or options.minutes is not None):
        parser.error("--seed runs one seed: do not combine it with --seeds or --minutes")


def main(
    options: argparse.Namespace,
    parser: argparse.ArgumentParser,
    *,
    clock: Callable[[], float],
    write: Callable[[str], None],
    spread: TaskRunner,
) -> int:
    _check(options, parser)
    if options.story:
        return _story(options, parser, write)
    if options.mutants:
        return _hunt(options, write)
    if options.seed is not None and not options.reports:
        return _one_bulk(options, write) if options.bulk else _one(options, parser, write)
    return _explore(options, clock, write, spread)


def _kind_name(options: argparse.Namespace) -> str:
    return next((name for name in KINDS if name != STACK and getattr(options, name)), STACK)


def _seeds(options: argparse.Namespace) -> Iterable[int]:
    if options.seed is not None:
        return [options.seed]
    start: int = options.seed_from or 0
    if options.seeds is None and options.minutes is not None:
        return count(start)
    return range(start, start + (options.seeds or SEEDS_DEFAULT))


def _tasks(options: argparse.Namespace) -> Iterator[SeedTask]:
    return (_task(options, seed) for seed in _seeds(options))


def _task(options: argparse.Namespace, seed: int) -> SeedTask:
    low, high = options.nodes
    return SeedTask(seed, low, high, options.interim)


def _explore(
    options: argparse.Namespace, clock: Callable[[], float], write: Callable[[str], None], spread: TaskRunner
) -> int:
    start = clock()
    limit = start + 60.0 * options.minutes if options.minutes else float("inf")
    report = explore(
        _tasks(options),
        lambda tasks: spread(KINDS[_kind_name(options)].run, tasks, options.jobs),
        goes_on=lambda: clock() < limit,
        on_progress=lambda text: write(f"{clock() - start:7.1f} s  {text}"),
    )
    write(report.coverage())
    write(f"\n{report.progress()}, {clock() - start:.1f} s")
    if report.failed is None:
        write("no violation, and every run was live after the faults healed")
        return 0
    task = _task(options, report.failed.seed)
    _report_failure(report.failed, task, options, write, reduce=_kind_name(options) in (STACK, "interim"))
    return 1


def _report_failure(
    outcome: RunResult, task: SeedTask, options: argparse.Namespace, write: Callable[[str], None], *, reduce: bool
) -> None:
    failure = outcome.failure
    assert failure is not None
    if reduce:
        plan = _plan_of(task)
        smaller = shrink(plan, same_failure(failure))
        before, after = plan.steps, smaller.steps
        write(f"\n{after} of {before} steps are needed (narrate them with --seed {task.seed} --shrink --narrate):")
        write(str(smaller))
    write("\n" + failure.text)
    kind = _kind_name(options)
    of_kind = task.options + ("" if kind in (STACK, "interim") else f" --{kind}")
    if "narrate" in WITHOUT.get(kind, ()):
        write(f"\nreplay: python -m cluster sim --seed {task.seed}{of_kind}")
    else:
        write("\n" + failure.line(task.seed, of_kind))


def _story(options: argparse.Namespace, parser: argparse.ArgumentParser, write: Callable[[str], None]) -> int:
    name: str = options.story
    if options.diagram or options.narrate == "summary":
        listener = SpaceTimeRecorder() if options.diagram else SummaryNarrator()
        stories.play_story(name, factory_of(name), listener)
        if not options.diagram:
            write(f"# {stories.STORIES[name].__doc__}")
        _finish(listener, options, parser, write, str(stories.STORIES[name].__doc__))
    else:
        stories.narrate_story(name, factory_of(name), write, DETAILS.get(options.narrate, Detail.CONVERSATION))
    return 0


def _finish(
    listener: Narrator | SummaryNarrator | SpaceTimeRecorder | None,
    options: argparse.Namespace,
    parser: argparse.ArgumentParser,
    write: Callable[[str], None],
    title: str,
) -> None:
    match listener:
        case Narrator():
            listener.flush()
        case SummaryNarrator():
            listener.write_to(write)
        case SpaceTimeRecorder():
            try:
                options.diagram.write_text(draw(listener, title), encoding="utf-8")
            except OSError as error:
                parser.error(f"--diagram {options.diagram}: {error.strerror}")
            write(f"wrote {options.diagram}")


def _one(options: argparse.Namespace, parser: argparse.ArgumentParser, write: Callable[[str], None]) -> int:
    task = _task(options, options.seed)
    of_data = make_data_plan(task.seed, task.nodes_min, task.nodes_max) if options.data else None
    plan = _plan_of(task)
    if options.shrink:
        failure = play(plan).failure
        if failure is None:
            write(f"seed {task.seed} does not fail: there is nothing to shrink")
            return 0
        plan = shrink(plan, same_failure(failure))
    if options.narrate != "summary":
        write(str(of_data or plan))
    listener: Narrator | SummaryNarrator | SpaceTimeRecorder | None = None
    if options.diagram:
        listener = SpaceTimeRecorder()
    elif options.narrate:
        listener = SummaryNarrator() if options.narrate == "summary" else Narrator(write, DETAILS[options.narrate])
    if options.trace:
        with options.trace.open("wb") as file:
            outcome = play(plan, TraceWriter(plan.names[0], file.write, listener))
    else:
        outcome = play_data(of_data, listener) if of_data else play(plan, listener)
    _finish(listener, options, parser, write, f"seed {task.seed}")
    if outcome.failure is None:
        write(f"seed {task.seed}: no violation, {outcome.steps} actions in {outcome.seconds:.1f} virtual seconds")
        return 0
    _report_failure(outcome, task, options, write, reduce=False)
    return 1


def _one_bulk(options: argparse.Namespace, write: Callable[[str], None]) -> int:
    outcome = run_bulk_seed(options.seed, write if options.narrate else None)
    if outcome.failure is None:
        write(f"seed {options.seed}: no violation, {outcome.steps} packets in {outcome.seconds:.1f} virtual seconds")
        return 0
    _report_failure(outcome, _task(options, options.seed), options, write, reduce=False)
    return 1


def _plan_of(task: SeedTask) -> RunPlan:
    return make_plan(task.seed, task.nodes_min, task.nodes_max, interim=task.interim)


def _hunt(options: argparse.Namespace, write: Callable[[str], None]) -> int:
    """Hunt each mutant, by default starting at the seed that is known to catch it."""
    seeds_max = options.seeds or MUTANT_SEEDS
    run_one, mutants = KINDS[_kind_name(options)]
    caught = []
    for mutant in mutants:
        if not mutant.equivalent:
            first = mutant.shown_by if options.seed_from is None else options.seed_from
            seeds = range(first, first + seeds_max)
            caught.append(hunt(mutant, seeds, lambda seed: run_one(_task(options, seed))))
            write(row(caught[-1]))
    survivors = [one.name for one in caught if not one.by]
    write(f"\n{len(caught) - len(survivors)} of {len(caught)} caught, each within {seeds_max} seeds\n")
    write("equivalent mutants:")
    for mutant in mutants:
        if mutant.equivalent:
            write(f"  {mutant.layer}, {mutant.name}: {mutant.equivalent}")
    return 1 if survivors else 0
