"""``loadgen trace``: makes traces from rate curves and page mixes or from access logs, and transforms traces."""

from __future__ import annotations

import math
import random
import sys
from typing import TYPE_CHECKING

from msgspec import UNSET

from loadgen.commands.as_log import add_options, cluster_of, write_log
from loadgen.commands.option_values import read_body, read_method
from loadgen.errors import UsageError, read
from loadgen.trace import transforms
from loadgen.trace.arrivals import KINDS
from loadgen.trace.files import lines_of, read_trace, reading, write_trace, writing
from loadgen.trace.logs import NOT_A_LINE, LogReader, as_trace
from loadgen.trace.making import make_trace, parse_mixes
from loadgen.units import parse_duration_s, parse_number, parse_positive_duration_s

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from loadgen.trace.request import TraceRequest

_EXAMPLE = "loadgen trace --rate 200 --duration 60s --mix A=30:/a.html --mix B=70:/b.html --out trace.jsonl"
_MAKING = ("duration", "arrivals", "mix", "zipf", "flash", "method", "body")


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make a trace, a file of JSON lines that say which request is due when; or make a new one out of traces "
        f"(several are merged) or access logs. The same seed gives the same file. Example: {_EXAMPLE}"
    )
    parser.add_argument("traces", metavar="TRACE", nargs="*", help="traces to edit, and to merge if there are several")
    parser.add_argument("--out", metavar="FILE", default="-", help="where to; .gz is compressed (standard output)")
    parser.add_argument("--seed", metavar="N", default="1", help="of everything that is random (1)")
    parser.add_argument(
        "--rate", metavar="R", help="per second: 200; 10..200 is a ramp; 10@20s,50@20s steps; day:10..200 a day. Of "
        "given traces: x2 is twice as many requests in the same time",
    )  # fmt: skip
    new = parser.add_argument_group("new traces")
    new.add_argument("--duration", metavar="TIME", help="such as 60s; steps know their own")
    new.add_argument("--arrivals", choices=KINDS, help="by chance, or evenly spaced (poisson)")
    new.add_argument(
        "--mix", metavar="CLASS=WEIGHT:URL", action="append", default=[],
        help="a class and its page, or pages: /b/{1..500}.html; or a URL alone. Repeatable (/)",
    )  # fmt: skip
    new.add_argument("--zipf", metavar="S", help="the n-th page of a range in proportion to n^-S (all alike)")
    new.add_argument(
        "--flash", metavar="CLASS=xF@T+D", action="append", default=[],
        help="a flash crowd: A=x10@50s+20s is ten times as much of A from 50 s to 70 s; repeatable",
    )  # fmt: skip
    new.add_argument("--method", metavar="M", help="(GET; POST with --body)")
    new.add_argument("--body", metavar="SIZE|@FILE", help="of every request: 4KB of anything, or a file's bytes")
    given = parser.add_argument_group("traces out of others")
    given.add_argument(
        "--from-log", metavar="FILE", action="append", default=[], help="an access log: JSON lines or combined"
    )
    given.add_argument("--speed", metavar="X", help="the same requests X times as fast")
    given.add_argument("--from", dest="begin", metavar="TIME", help="leave out what comes before")
    given.add_argument("--to", dest="end", metavar="TIME", help="leave out what comes then or later")
    given.add_argument("--class", dest="classes", metavar="NAME", action="append", default=[], help="only these")
    add_options(parser)
    parser.set_defaults(act=_act)


def _act(arguments: argparse.Namespace) -> int:
    if not arguments.seed.isdigit() or len(arguments.seed) > 18:
        raise UsageError(f"--seed: '{arguments.seed}' is not a whole number")
    if arguments.out != "-" and arguments.out in (*arguments.traces, *arguments.from_log):
        raise UsageError(f"--out {arguments.out}: is also read; write to another file")
    is_given = bool(arguments.traces or arguments.from_log)
    if arguments.as_log and is_given:
        raise UsageError("--as-log is for new traces; leave out the given ones")
    trace = _given(arguments, random.Random(int(arguments.seed))) if is_given else _made(arguments)
    classes = [] if is_given else [part.class_name for part in parse_mixes(arguments.mix)]
    cluster = cluster_of(arguments, classes)
    with writing(arguments.out) as file:
        facts = write_trace(file, trace) if cluster is None else write_log(file, trace, cluster, classes)
    if arguments.out != "-":
        by_class = ", ".join(f"{name or 'no class'} {count}" for name, count in sorted(facts.classes.items())[:20])
        print(f"{arguments.out}: {facts.requests} requests in {facts.duration_s:.1f} s ({by_class})", file=sys.stderr)
    return 0


def _made(arguments: argparse.Namespace) -> Iterator[TraceRequest]:
    for option in ("speed", "begin", "end", "classes"):
        if getattr(arguments, option):
            shown = {"begin": "from", "end": "to", "classes": "class"}.get(option, option)
            raise UsageError(f"--{shown} is for traces out of others; name one, or leave it out")
    if not arguments.rate:
        raise UsageError(f"--rate is missing; for example: {_EXAMPLE}")
    if arguments.rate.startswith("x"):
        raise UsageError(f"--rate {arguments.rate}: is for a given trace; name it, or write a rate such as 200")
    method = read_method(arguments.method or ("POST" if arguments.body else "GET"))
    return make_trace(
        arguments.rate,
        read(parse_positive_duration_s, arguments.duration, "--duration") if arguments.duration else None,
        mix=arguments.mix,
        flash=arguments.flash,
        arrivals=arguments.arrivals or "poisson",
        zipf=read(lambda text: parse_number(text, "an exponent such as 1.1"), arguments.zipf or "0", "--zipf"),
        method=method,
        body=read_body(arguments.body, method) if arguments.body else UNSET,
        seed=int(arguments.seed),
    )


def _given(arguments: argparse.Namespace, dice: random.Random) -> Iterator[TraceRequest]:
    for option in _MAKING:
        if getattr(arguments, option):
            raise UsageError(f"--{option.replace('_', '-')} is for new traces; leave it out, or the given traces")
    factor = 1.0
    if arguments.rate:
        if not arguments.rate.startswith("x"):
            raise UsageError(f"--rate {arguments.rate}: of a given trace, write such as x2 for twice as many requests")
        factor = _factor(arguments.rate[1:], "--rate x")
    speed = _factor(arguments.speed, "--speed ") if arguments.speed else 1.0
    begin_s = read(parse_duration_s, arguments.begin, "--from") if arguments.begin else 0.0
    end_s = read(parse_duration_s, arguments.end, "--to") if arguments.end else math.inf
    if begin_s >= end_s:
        raise UsageError("--from has to be before --to")
    sources: list[Iterable[TraceRequest]] = [read_trace(name) for name in arguments.traces]
    if arguments.from_log:
        sources.append(_from_logs(arguments, dice))
    trace = transforms.merged(sources)
    if begin_s > 0 or end_s < math.inf:
        trace = transforms.sliced(trace, begin_s, end_s)
    if arguments.classes:
        trace = transforms.of_classes(trace, arguments.classes)
    if factor != 1:
        trace = transforms.denser(trace, factor, dice)
    return transforms.faster(trace, speed) if speed != 1 else trace


def _factor(text: str, option: str) -> float:
    factor = read(lambda given: parse_number(given, "a factor such as 2 or 0.5"), text, option.strip())
    if not 0 < factor <= 10_000:
        raise UsageError(f"{option}{text}: has to be more than 0 and at most 10000")
    return factor


def _from_logs(arguments: argparse.Namespace, dice: random.Random) -> list[TraceRequest]:
    found: list[TraceRequest] = []
    for name in arguments.from_log:
        reader = LogReader(dice)
        with reading(name) as file:
            before = len(found)
            found += reader.requests(lines_of(file, name))
        for what, count in reader.skipped.items():
            where = f", the first in line {reader.first_bad_line}" if what == NOT_A_LINE else ""
            print(f"loadgen: {name}: left out {count} {what}{where}", file=sys.stderr)
        if len(found) == before:
            raise UsageError(f"{name}: no requests in it; a log is JSON lines with ts, method and path, or combined")
    return as_trace(found)
