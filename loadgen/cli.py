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

# Arguments that are files, for shell completion: `shtab` reads the attribute ``complete``.
_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files"}
_FILE_METAVARS = frozenset({"A", "B", "DIR", "FILE", "RESULTS", "TRACE"})


class _Parser(argparse.ArgumentParser):
    """argparse that reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


class LoadgenHelp(argparse.HelpFormatter):
    """Wraps descriptions, but keeps the lines of examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


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


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands. `shtab` makes shell completions from it."""
    return _make_parser()[0]


def _make_parser() -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[_Parser]]:
    parser = _Parser(
        prog="loadgen",
        description="Open-loop load generator for web servers: requests are sent when they are due, whatever the "
        "server does, and latency is measured from the due time.",
        epilog="""\
examples:
  loadgen trace --rate 200 --duration 60s --mix A=30:/a.html --mix B=70:/b.html --out trace.jsonl
  loadgen run trace.jsonl --target http://127.0.0.1:8080 --out results.jsonl
  loadgen report results.jsonl
  loadgen COMMAND --help""",
        formatter_class=LoadgenHelp,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"loadgen {version('qosweb')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, formatter_class=LoadgenHelp, allow_abbrev=False)

    trace.add(add("trace", "make a trace, or transform traces"))
    run.add(add("run", "send the requests of a trace"))
    run.add_replay(add("replay", "send the requests of a run again"))
    report.add(add("report", "print the report of a run, or compare two runs"))
    experiments.add(add("experiments", "verify the guarantees with real nodes"))
    for command in commands.choices.values():
        for action in command._actions:  # noqa: SLF001
            if action.metavar in _FILE_METAVARS:
                action.complete = _FILES  # type: ignore[attr-defined]
    return parser, commands


def _run(argv: list[str]) -> int:
    parser, commands = _make_parser()
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
