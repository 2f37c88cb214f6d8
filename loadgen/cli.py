"""Command line of ``loadgen``: parses the arguments, runs the subcommand, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, NoReturn

from loadgen.commands import experiments, report, run, trace
from loadgen.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class _Parser(argparse.ArgumentParser):
    """argparse that reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return _run(sys.argv[1:] if argv is None else list(argv))
    except UsageError as error:
        print(f"loadgen: error: {_on_one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # such as: loadgen trace ... | head
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - so that nothing is flushed into the pipe at exit
        return 141


def _run(argv: list[str]) -> int:
    parser = _Parser(
        prog="loadgen",
        description="Open-loop load generator for web servers: requests are sent when they are due, whatever the "
        "server does, and latency is measured from the due time.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"loadgen {version('qosweb')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    trace.add(commands.add_parser("trace", help="make a trace, or transform traces", allow_abbrev=False))
    run.add(commands.add_parser("run", help="send the requests of a trace", allow_abbrev=False))
    run.add_replay(commands.add_parser("replay", help="send the requests of a run again", allow_abbrev=False))
    report.add(commands.add_parser("report", help="print the report of a run, or compare two runs", allow_abbrev=False))
    experiments.add(
        commands.add_parser("experiments", help="verify the guarantees with real nodes", allow_abbrev=False)
    )
    if argv and not argv[0].startswith("-") and argv[0] not in commands.choices:
        raise UsageError(f"unknown command '{argv[0]}'{_did_you_mean(argv[0], commands.choices)}")
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        what = "unknown option" if unknown[0].startswith("-") else "unexpected argument"
        chosen = commands.choices.get(arguments.command, parser)
        known = [flag for action in chosen._actions for flag in action.option_strings]  # noqa: SLF001
        raise UsageError(f"{what} '{unknown[0]}'{_did_you_mean(unknown[0].partition('=')[0], known)}")
    if arguments.command is None:
        parser.print_help()
        return 0
    code: int = arguments.act(arguments)
    return code


def _did_you_mean(given: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(given, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def _on_one_line(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


if __name__ == "__main__":
    sys.exit(main())
