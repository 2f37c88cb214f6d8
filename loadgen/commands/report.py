"""``loadgen report``: a run told again, or two compared."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from loadgen.commands.output import write_outputs
from loadgen.errors import UsageError
from loadgen.results.assertions import parse_assertion
from loadgen.results.comparison import compare, render_comparison
from loadgen.results.recount import recount
from loadgen.results.results_file import RunFile
from loadgen.results.summary import RunSummary
from loadgen.trace.files import reading

if TYPE_CHECKING:
    import argparse

_SUMMARY_LEN_MAX = 64 << 20


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Tell of a run again, or compare two of them class by class."
    parser.add_argument("first", metavar="A", help="what loadgen run wrote with --out or --summary")
    parser.add_argument("second", metavar="B", nargs="?", help="another one, to compare with")
    parser.add_argument("--json", action="store_true", help="for scripts: JSON on standard output")
    parser.add_argument("--summary", metavar="FILE", help="the summary of A as JSON")
    parser.add_argument("--hdr", metavar="FILE", help="latencies: .hgrm for the percentiles, else an HdrHistogram log")
    parser.add_argument(
        "--assert", dest="assertions", metavar="'p99<200ms'", action="append", default=[],
        help="of A, as for loadgen run: exit code 1 if it does not hold; latencies are of accepted requests",
    )  # fmt: skip
    parser.set_defaults(act=_act)


def _act(arguments: argparse.Namespace) -> int:
    assertions = [parse_assertion(text) for text in arguments.assertions]
    first = load(arguments.first)
    if arguments.second is None:
        return write_outputs(arguments, first, assertions)
    if assertions or arguments.summary or arguments.hdr:
        raise UsageError("--assert, --summary and --hdr are for the report of one run; leave out the second")
    second = load(arguments.second)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(compare(first, second)), indent=2).decode())
    else:
        sys.stdout.write(render_comparison(first, second, (arguments.first, arguments.second)))
    return 0


def load(name: str) -> RunSummary:
    """The summary of a run out of either of the files that it writes."""
    with reading(name) as file:
        start = file.read(200).lstrip()
        if not start.startswith(b'{"run"'):
            text = start + file.read(_SUMMARY_LEN_MAX)
            try:
                return msgspec.json.decode(text, type=RunSummary)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise UsageError(
                    f"{name}: neither results nor the summary of a run ({error}); they are written by loadgen run with "
                    f"--out FILE or --summary FILE"
                ) from None
    run = RunFile(name)
    return recount(run.facts, run.results())
