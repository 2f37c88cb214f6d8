"""Command line of the group communication library: ``python -m cluster COMMAND``.

`sim` tests the stack in a simulated network. `node` runs a member of a real group, and `check` verifies the
traces that members recorded. `inspect` and `recover` work on the data directories of nodes. `key` makes a cluster key.
"""

import argparse
import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from cluster.runtime.commands import experiment, recovery_commands
from cluster.runtime.commands.command_line import add_commands
from cluster.sim import command_line
from cluster.sim.explore import SeedTask
from cluster.sim.run import RunResult

WAITING_PER_JOB = 4  # tasks queued for each worker process, so that no worker is idle


class CommandHelp(argparse.HelpFormatter):
    """Wraps descriptions, but keeps the lines of examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


class CommandParser(argparse.ArgumentParser):
    """A parser, and the class of its subparsers, whose help ends with examples."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": CommandHelp, **options})


def spread(function: Callable[[SeedTask], RunResult], tasks: Iterator[SeedTask], jobs: int) -> Iterator[RunResult]:
    """Run the tasks in worker processes and yield the results in task order. `tasks` may be infinite."""
    if jobs == 1:
        yield from map(function, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        waiting = deque(pool.apply_async(function, (task,)) for task in islice(tasks, WAITING_PER_JOB * jobs))
        while waiting:
            outcome = waiting.popleft().get()
            waiting.extend(pool.apply_async(function, (task,)) for task in islice(tasks, 1))
            yield outcome


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands. `shtab` makes shell completions from it."""
    return _make_parser()[0]


def _make_parser() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    parser: argparse.ArgumentParser = CommandParser(
        prog="python -m cluster",
        description="The group communication stack on its own.",
        epilog="""\
examples:
  python -m cluster key cluster.key
  python -m cluster node --key-file cluster.key --name ann --found --listen 127.0.0.1:7000
  python -m cluster sim --seeds 1000 --jobs 2
  python -m cluster COMMAND --help""",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    sim = commands.add_parser("sim", help="test the stack in a simulated network with faults")
    command_line.add_options(sim)
    add_commands(commands)
    recovery_commands.add_commands(commands)
    experiment.add_command(commands)
    return parser, sim


def main(argv: list[str] | None = None) -> int:
    parser, sim = _make_parser()
    options = parser.parse_args(argv)
    if options.command is None:
        parser.print_help()
        return 0
    if options.command != "sim":
        code: int = options.run(options)
        return code
    return command_line.main(
        options, sim, clock=time.monotonic, write=lambda text: print(text, flush=True), spread=spread
    )
