"""Command line of ``loadgen``: parses the arguments, runs the subcommand, and turns errors into exit codes."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from loadgen.commands import experiments, report, run, trace
from qosweb.command_parser import SubcommandParser, run_command_line

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    return run_command_line("loadgen", _run, argv)


def make_parser() -> SubcommandParser:
    """The parser of all commands."""
    parser = SubcommandParser(
        prog="loadgen",
        description="Open-loop load generator for web servers: requests are sent when they are due, whatever the "
        "server does, and latency is measured from the due time.",
        epilog="""\
examples:
  loadgen trace --rate 200 --duration 60s --mix A=30:/a.html --mix B=70:/b.html --out trace.jsonl
  loadgen run trace.jsonl --target http://127.0.0.1:8080 --out results.jsonl
  loadgen report results.jsonl
  loadgen COMMAND --help""",
    )
    parser.add_argument("--version", action="version", version=f"loadgen {version('qosweb')}")
    add = parser.add_commands()
    trace.add(add("trace", "make a trace, or transform traces"))
    run.add(add("run", "send the requests of a trace"))
    run.add_replay(add("replay", "send the requests of a run again"))
    report.add(add("report", "print the report of a run, or compare two runs"))
    experiments.add(add("experiments", "verify the guarantees with real nodes"))
    parser.complete_files()
    return parser


def _run(argv: list[str]) -> int:
    arguments = make_parser().parse_command(argv)
    if arguments is None:
        return 0
    code: int = arguments.act(arguments)
    return code
