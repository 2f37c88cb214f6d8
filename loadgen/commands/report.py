"""``loadgen report``: prints the summary of a finished run, or compares two runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from loadgen.commands.output import write_outputs
from loadgen.results.assertions import parse_assertion
from loadgen.results.comparison import compare, render_comparison
from loadgen.results.results_file import read_summary
from qosweb.errors import UsageError

if TYPE_CHECKING:
    import argparse


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print the report of a finished run, or compare two runs class by class."
    parser.epilog = """\
examples:
  loadgen report results.jsonl
  loadgen report before.jsonl after.jsonl
  loadgen report results.jsonl --assert 'A.served>=99.9%' --assert 'p99<200ms'"""
    parser.add_argument("first", metavar="A", help="a file that loadgen run wrote with --out or --summary")
    parser.add_argument("second", metavar="B", nargs="?", help="another such file, to compare with")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--summary", metavar="FILE", help="write the summary of A as JSON")
    parser.add_argument(
        "--assert", dest="assertions", metavar="'p99<200ms'", action="append", default=[],
        help="an assertion on A, as for loadgen run: exit code 1 if it fails; latencies are of accepted requests",
    )  # fmt: skip
    parser.set_defaults(act=_act)


def _act(arguments: argparse.Namespace) -> int:
    assertions = [parse_assertion(text) for text in arguments.assertions]
    first = read_summary(arguments.first)
    if arguments.second is None:
        return write_outputs(arguments, first, assertions)
    if assertions or arguments.summary:
        raise UsageError("--assert and --summary are for the report of one run; leave out the second file")
    second = read_summary(arguments.second)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(compare(first, second)), indent=2).decode())
    else:
        sys.stdout.write(render_comparison(first, second, (arguments.first, arguments.second)))
    return 0
