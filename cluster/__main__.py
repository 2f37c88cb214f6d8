"""Command line of the group communication library: ``python -m cluster COMMAND``.

`sim` tests the stack in a simulated network. `node` and `chat` run members of a real group, and `check` verifies the
traces that members recorded. `inspect` and `recover` work on the data directories of nodes. `key` makes a cluster key.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from cluster.runtime.commands import experiment, recovery_commands
from cluster.runtime.commands.command_line import add_commands
from cluster.sim import command_line
from cluster.sim.explore import SeedTask
from cluster.sim.run import RunResult

WAITING_PER_JOB = 4  # tasks queued for each worker process, so that no worker is idle


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


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cluster", description="The group communication stack on its own.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    sim = commands.add_parser("sim", help="run the stack in a simulated world that tries to break it")
    command_line.add_options(sim)
    add_commands(commands)
    recovery_commands.add_commands(commands)
    experiment.add_command(commands)
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


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
