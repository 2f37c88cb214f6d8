"""``loadgen run`` and ``loadgen replay``: requests against real servers."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from loadgen.assertions import parse_assertion
from loadgen.bodies import check_files
from loadgen.commands.kept import DEFAULTS, keep, take, tell_left_out
from loadgen.commands.output import write_outputs
from loadgen.commands.values import read, read_body, read_fields, read_method
from loadgen.errors import UsageError
from loadgen.job import Job
from loadgen.progress import make_display
from loadgen.resolve import parse_target
from loadgen.results import RunFacts, request_of
from loadgen.run import Run
from loadgen.runfile import RunFile
from loadgen.spread import parse_spread, written
from loadgen.targets import Target, split_address
from loadgen.trace.files import TraceFacts, read_trace, survey, write_trace, writing
from loadgen.trace.request import WITH_BODY, Request, fault_in
from loadgen.units import parse_count, parse_number, parse_positive_duration_s, parse_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

_PER_PROCESS_PER_S = 5000  # what a process is given by default; it can do about twice as many
_PROCESSES_MAX = 64
_CONNECTIONS_MAX = 50_000
_SPARE_FILES = 100
_TARGETS_MAX = 100
_INTERRUPTED = 130
_TELL_EVERY_S, _TELL_QUIETLY_EVERY_S = 0.2, 1.0


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Send the requests of a trace when they are due, to one target or spread over several. Exit code 0; 1 if an "
        "assertion does not hold; 2 if it cannot run; 130 if it was interrupted. Latencies and their percentiles are "
        "of accepted requests; what is denied or fails, such as by a timeout, is counted and is not in them."
    )
    parser.add_argument("trace", metavar="TRACE", help="a file, - for standard input, or a URL for a closed loop")
    _add_common(parser, DEFAULTS)
    loop = parser.add_argument_group("closed loop", "as wrk does it: clients that ask again when they are answered")
    loop.add_argument("-c", "--clients", metavar="N", help="so many of them; times in the trace do not matter")
    loop.add_argument("--method", metavar="M", help="of the requests for a URL (GET; POST with --body)")
    loop.add_argument("-z", "--for", dest="lasting", metavar="TIME", help="for how long (10s)")
    loop.add_argument("--pause", metavar="TIME", help="of a client before it asks again: random, so long on average")
    parser.set_defaults(act=_act_run)


def add_replay(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Send the requests of an earlier run again, at the same times; to its targets unless others are given, and "
        "with its headers, redirects, timeouts and connections unless options say otherwise. A header whose name "
        "suggests a secret, such as Authorization, is not in the results and has to be given again."
    )
    parser.add_argument("trace", metavar="RESULTS", help="what loadgen run --out wrote")
    _add_common(parser, {})
    parser.set_defaults(act=_act_replay, clients=None, lasting=None, pause=None, method=None)


def _add_common(parser: argparse.ArgumentParser, defaults: Mapping[str, str]) -> None:
    """Without a default an option is None, and as it was in the run that is replayed."""

    def usual(option: str) -> str:
        return f"({defaults.get(option, 'as in the run')})"

    parser.add_argument(
        "--target",
        metavar="URL",
        action="append",
        default=[],
        help="a server such as http://127.0.0.1:8080; repeatable",
    )
    parser.add_argument(
        "--spread", metavar="HOW", help="over targets: one (the first), even (the default), skewed[:S], or 70,20,10"
    )
    parser.add_argument("--allow-remote", action="store_true", help="targets may be other machines than this one")
    parser.add_argument("--processes", metavar="N", help="(as many as the trace needs, one core left free)")
    parser.add_argument("--connections", metavar="N", help=f"open at a time to each target {usual('connections')}")
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        help=f"from sending to the whole answer; what takes longer counts as failed {usual('timeout')}",
    )
    parser.add_argument("--connect-timeout", metavar="TIME", help=f"for a connection {usual('connect_timeout')}")
    parser.add_argument(
        "--send-within",
        metavar="TIME",
        help=f"of being due, else a request counts as unsent {usual('send_within')}",
    )
    parser.add_argument("--body-max", metavar="SIZE", help=f"largest answer that is read {usual('body_max')}")
    parser.add_argument("--redirects", metavar="N", help=f"followed per request; 0 is none {usual('redirects')}")
    parser.add_argument("--speed", metavar="X", default="1", help="run the trace X times as fast (1)")
    parser.add_argument("--header", metavar="'N: V'", action="append", default=[], help="a field for every request")
    parser.add_argument(
        "--body",
        metavar="SIZE|@FILE",
        help="for POST, PUT and PATCH that have none in the trace: 4KB of anything, or a file",
    )
    parser.add_argument("--ca", metavar="FILE", default="", help="certificates to trust, for https")
    parser.add_argument("--insecure", action="store_true", help="do not check the certificate of https targets")
    parser.add_argument(
        "--out", metavar="FILE", help="a line of JSON for each request; .gz is compressed, - is standard output"
    )
    parser.add_argument("--summary", metavar="FILE", help="the summary as JSON")
    parser.add_argument("--hdr", metavar="FILE", help="latencies: .hgrm for the percentiles, else an HdrHistogram log")
    parser.add_argument(
        "--assert", dest="assertions", metavar="'p99<200ms'", action="append", default=[],
        help="exit code 1 if it does not hold; also 'A.served>=99.9%%', 'B.denied<=5%%', 'rate>=100/s'; latencies are "
        "of accepted requests; repeatable",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="the summary as JSON on standard output, for scripts")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--progress", metavar="TIME", help="how often (0.5s in a terminal, else 5s)")
    parser.set_defaults(**defaults)


def _act_run(arguments: argparse.Namespace) -> int:
    name: str = arguments.trace
    if name.startswith(("http://", "https://")):
        return _run_url(arguments, name)
    if (arguments.lasting or arguments.pause) and not arguments.clients:
        option = "-z" if arguments.lasting else "--pause"
        raise UsageError(f"{option} is for closed loops; say with -c how many clients, such as -c 64")
    if arguments.method:
        raise UsageError("--method is for a URL; a trace says itself with what method each request is sent")
    speed = _speed(arguments)
    with contextlib.ExitStack() as stack:
        if name == "-" or speed != 1 or arguments.body:
            name = stack.enter_context(_spooled(_changed(read_trace(name), arguments, speed)))
        return _run(arguments, name, arguments.trace, _targets(arguments, []))


def _run_url(arguments: argparse.Namespace, url: str) -> int:
    if not arguments.clients:
        raise UsageError("a URL instead of a trace is for closed loops; add -c 64 -z 10s, or make a trace of it")
    if arguments.target:
        raise UsageError("a URL names the server itself; leave out --target, or give a trace instead of the URL")
    try:
        scheme, host, port, path = split_address(url)
    except ValueError as error:
        raise UsageError(str(error)) from None
    base = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    arguments.target = [base]
    method = read_method(arguments.method or ("POST" if arguments.body else "GET"))
    body = read_body(arguments.body, method) if arguments.body else UNSET
    request = Request(0.0, path, method, body=body)
    if fault := fault_in(request):
        raise UsageError(fault)
    with _spooled(iter([request])) as name:
        return _run(arguments, name, url, _targets(arguments, []))


def _act_replay(arguments: argparse.Namespace) -> int:
    earlier = RunFile(arguments.trace)
    if earlier.facts.closed_loop:
        raise UsageError(f"{arguments.trace}: is of a closed loop, whose requests have no times; run its trace again")
    speed = _speed(arguments)
    found = sorted(earlier.results(), key=lambda result: result.n)
    if not found:
        raise UsageError(f"{arguments.trace}: has no requests")
    take(arguments, earlier.facts, arguments.trace)
    with _spooled(_changed(map(request_of, found), arguments, speed)) as name:
        if not arguments.target and not arguments.spread:
            arguments.spread = written(earlier.facts.spread)
        return _run(arguments, name, arguments.trace, _targets(arguments, earlier.facts.targets))


def _run(arguments: argparse.Namespace, file: str, shown_name: str, targets: list[Target]) -> int:
    assertions = [parse_assertion(text) for text in arguments.assertions]
    known = survey(read_trace(file))
    if not known.requests:
        raise UsageError(f"{shown_name}: has no requests")
    if arguments.body and not known.takes_bodies:
        raise UsageError(f"--body: {shown_name} has no request with method POST, PUT or PATCH")
    check_files(known.body_files, shown_name)
    if known.classes.keys() != {""}:
        for assertion in assertions:
            assertion.check_class(known.classes)
    weights = parse_spread(arguments.spread or "even", len(targets))
    jobs = _jobs(arguments, file, known, targets, weights)
    first = jobs[0]
    facts = RunFacts(
        trace=shown_name,
        targets=[target.url for target in targets],
        spread=weights,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        requests=0 if first.closed_loop_clients else known.requests,
        duration_s=first.closed_loop_s or known.duration_s,
        processes=len(jobs),
        connections=sum(job.connections for job in jobs),
        timeout_s=first.timeout_s,
        send_within_s=first.send_within_s,
        version=version("qosweb"),
        closed_loop=first.closed_loop_clients > 0,
        follow=first.redirects_max > 0,
    )
    facts = keep(facts, first)
    tell_left_out(arguments, facts)
    every_s = read(parse_positive_duration_s, arguments.progress, "--progress") if arguments.progress else None
    display = make_display(quiet=arguments.quiet, every_s=every_s)
    with contextlib.ExitStack() as stack:
        to = stack.enter_context(writing(arguments.out)) if arguments.out else None
        summary = Run(jobs, facts, display, to).go()
    code = write_outputs(arguments, summary, assertions)
    return _INTERRUPTED if summary.interrupted else code


def _jobs(
    arguments: argparse.Namespace, file: str, known: TraceFacts, targets: list[Target], weights: list[float]
) -> list[Job]:
    clients = read(parse_count, arguments.clients, "-c") if arguments.clients else 0
    limit = read(parse_count, arguments.connections, "--connections")
    if clients:
        limit = clients
    if limit > _CONNECTIONS_MAX:
        raise UsageError(f"{'-c' if clients else '--connections'}: at most {_CONNECTIONS_MAX}")
    if arguments.processes:
        processes = read(parse_count, arguments.processes, "--processes")
    else:
        processes = min(math.ceil(known.peak_per_s / _PER_PROCESS_PER_S), max(1, (os.cpu_count() or 1) - 1))
        processes = 1 if clients else max(1, processes)
    if processes > _PROCESSES_MAX:
        raise UsageError(f"--processes: at most {_PROCESSES_MAX}")
    processes = min(processes, limit)
    _allow_files(math.ceil(limit / processes) * len(targets))
    if arguments.ca and not Path(arguments.ca).is_file():
        raise UsageError(f"--ca {arguments.ca}: no such file")
    if not arguments.redirects.isdigit() or len(arguments.redirects) > 3:
        raise UsageError(f"--redirects: '{arguments.redirects}' is not a number such as 5, or 0 for none")
    lasting_s = read(parse_positive_duration_s, arguments.lasting or "10s", "-z") if clients else 0.0
    shares = [limit // processes + (at < limit % processes) for at in range(processes)]
    return [
        Job(
            trace=file,
            part=at,
            parts=processes,
            targets=targets,
            weights=weights,
            connections=shares[at],
            timeout_s=read(parse_positive_duration_s, arguments.timeout, "--timeout"),
            connect_timeout_s=read(parse_positive_duration_s, arguments.connect_timeout, "--connect-timeout"),
            send_within_s=read(parse_positive_duration_s, arguments.send_within, "--send-within"),
            body_max=read(parse_size, arguments.body_max, "--body-max"),
            redirects_max=int(arguments.redirects),
            allow_remote=arguments.allow_remote,
            want_results=bool(arguments.out),
            headers=read_fields(arguments.header, "--header"),
            tls_verify=not arguments.insecure,
            tls_ca=arguments.ca,
            tell_every_s=_TELL_QUIETLY_EVERY_S if arguments.quiet else _TELL_EVERY_S,
            closed_loop_s=lasting_s,
            closed_loop_clients=shares[at] if clients else 0,
            pause_s=read(parse_positive_duration_s, arguments.pause, "--pause") if arguments.pause else 0.0,
        )
        for at in range(processes)
    ]


def _allow_files(wanted: int) -> None:
    """A connection is an open file: raise the limit as far as it goes, and say so if that is not enough."""
    wanted += _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise UsageError(f"--connections: needs {wanted} open files, {hard} are allowed (see ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _targets(arguments: argparse.Namespace, default: list[str]) -> list[Target]:
    urls = arguments.target or default
    if not urls:
        raise UsageError("--target is missing: where to send the requests, such as --target http://127.0.0.1:8080")
    if len(urls) > _TARGETS_MAX:
        raise UsageError(f"--target: at most {_TARGETS_MAX} of them")
    return [parse_target(url, allow_remote=arguments.allow_remote) for url in urls]


def _speed(arguments: argparse.Namespace) -> float:
    speed = read(lambda text: parse_number(text, "a number"), arguments.speed, "--speed")
    if speed <= 0:
        raise UsageError("--speed: has to be more than 0")
    return speed


def _changed(requests: Iterator[Request], arguments: argparse.Namespace, speed: float) -> Iterator[Request]:
    """As ``--speed`` and ``--body`` say."""
    body = read_body(arguments.body, "POST") if arguments.body else UNSET
    for request in requests:
        own = request.body
        if own is UNSET and request.method in WITH_BODY:
            own = body
        yield replace(request, t=request.t / speed, body=own)


@contextlib.contextmanager
def _spooled(requests: Iterator[Request]) -> Iterator[str]:
    """A trace as a file that every process of a run can read for itself."""
    with tempfile.TemporaryDirectory(prefix="loadgen-") as folder:
        name = str(Path(folder) / "trace.jsonl")
        with writing(name) as file:
            write_trace(file, requests)
        yield name
