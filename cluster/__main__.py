"""``python -m cluster``: the group stack on its own.

`sim` explores it in a simulated world; `node` and `chat` are members of a real group, and `check` judges what members
recorded; `inspect` and `recover` are for the disks of real nodes.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from cluster.runtime.commands import recovery_commands
from cluster.runtime.commands.command_line import add_commands
from cluster.sim import command_line
from cluster.sim.explore import SeedTask
from cluster.sim.run import RunResult

WAITING_PER_JOB = 4  # tasks handed out before their turn, so that nobody is idle


def spread(function: Callable[[SeedTask], RunResult], tasks: Iterator[SeedTask], jobs: int) -> Iterator[RunResult]:
    """The outcomes in the order of the tasks, of which there may be no end."""
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
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
