"""``loadgen run`` and ``loadgen replay``: parse the command line, send the requests, report."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from loadgen.commands.option_values import read_body, read_fields, read_method
from loadgen.commands.output import write_outputs
from loadgen.commands.replay_options import options_of, tell_left_out, tell_taken
from loadgen.load import parse_targets, send_trace, spooled
from loadgen.options import LoadOptions
from loadgen.results.assertions import parse_assertion
from loadgen.results.results import request_of, suggests_secret
from loadgen.results.results_file import RunFile
from loadgen.run.progress import make_display
from loadgen.send.targets import split_address
from loadgen.trace.files import read_trace, survey
from loadgen.trace.request import WITH_BODY, TraceRequest, fault_in
from qosweb.errors import UsageError, read_option
from qosweb.units import parse_count, parse_number, parse_positive_duration_s, parse_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

_INTERRUPTED = 130
_SHOWN_DEFAULTS = {
    "connections": "1000",
    "timeout": "10s",
    "connect_timeout": "5s",
    "send_within": "5s",
    "body_max": "1GB",
    "redirects": "5",
}


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Send the requests of a trace when they are due, to one target or spread over several. Exit code 0; 1 if an "
        "assertion does not hold; 2 if it cannot run; 130 if it was interrupted. Latencies and their percentiles are "
        "of accepted requests only; denied and failed requests, such as timeouts, are counted separately."
    )
    parser.epilog = """\
examples:
  loadgen run trace.jsonl --target http://127.0.0.1:8080 --assert 'A.served>=99.9%' --assert 'p99<200ms'
  loadgen trace --rate 50 --duration 10s | loadgen run - --target http://127.0.0.1:8080
  loadgen run http://127.0.0.1:8080/ -c 64 -z 10s"""
    parser.add_argument("trace", metavar="TRACE", help="a file, - for standard input, or a URL for a closed loop")
    _add_common(parser, _SHOWN_DEFAULTS)
    loop = parser.add_argument_group(
        "closed loop", "like wrk: each client sends its next request when it has its response"
    )
    loop.add_argument("-c", "--clients", metavar="N", help="number of clients; the times in the trace are ignored")
    loop.add_argument("--method", metavar="M", help="method of the requests for a URL (GET; POST with --body)")
    loop.add_argument("-z", "--for", dest="lasting", metavar="TIME", help="duration (10s)")
    loop.add_argument("--pause", metavar="TIME", help="mean of the random pause of a client between requests")
    parser.set_defaults(act=_act_run)


def add_replay(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Send the requests of an earlier run again, at the same times; to its targets unless others are given, and "
        "with its headers, redirects, timeouts and connections unless options override them. A header whose name "
        "suggests a secret, such as Authorization, is not in the results and has to be given again."
    )
    parser.epilog = """\
examples:
  loadgen replay results.jsonl --out again.jsonl
  loadgen replay results.jsonl --target http://127.0.0.1:8090 --speed 2"""
    parser.add_argument("trace", metavar="RESULTS", help="a file that loadgen run wrote with --out")
    _add_common(parser, {})
    parser.set_defaults(act=_act_replay, clients=None, lasting=None, pause=None, method=None)


def _add_common(parser: argparse.ArgumentParser, shown_defaults: Mapping[str, str]) -> None:
    """An option that is not given is None: then the default applies or, in a replay, the recorded value."""

    def usual(option: str) -> str:
        return f"({shown_defaults.get(option, 'as in the run')})"

    where = parser.add_argument_group("targets")
    sending = parser.add_argument_group("requests")
    output = parser.add_argument_group("results")
    where.add_argument(
        "--target",
        metavar="URL",
        action="append",
        default=[],
        help="a server such as http://127.0.0.1:8080; repeatable",
    )
    where.add_argument(
        "--spread",
        metavar="HOW",
        help="distribution over targets: one (the first), even (the default), skewed[:S], or 70,20,10",
    )
    where.add_argument("--allow-remote", action="store_true", help="allow targets on other machines")
    sending.add_argument(
        "--processes", metavar="N", help="worker processes (as many as the trace needs, one core left free)"
    )
    sending.add_argument("--connections", metavar="N", help=f"most connections to each target {usual('connections')}")
    sending.add_argument(
        "--timeout",
        metavar="TIME",
        help=f"time limit from sending a request to the end of its response; then it has failed {usual('timeout')}",
    )
    sending.add_argument("--connect-timeout", metavar="TIME", help=f"time limit to connect {usual('connect_timeout')}")
    sending.add_argument(
        "--send-within",
        metavar="TIME",
        help=f"time from when a request is due until it counts as unsent {usual('send_within')}",
    )
    sending.add_argument("--body-max", metavar="SIZE", help=f"largest response body {usual('body_max')}")
    sending.add_argument(
        "--redirects", metavar="N", help=f"most redirects that are followed for a request {usual('redirects')}"
    )
    sending.add_argument("--speed", metavar="X", default="1", help="run the trace X times as fast (1)")
    sending.add_argument(
        "--header", metavar="'N: V'", action="append", default=[], help="a header field of every request"
    )
    sending.add_argument(
        "--body",
        metavar="SIZE|@FILE",
        help="body of POST, PUT and PATCH requests without one in the trace: 4KB of generated bytes, or a file",
    )
    sending.add_argument("--ca", metavar="FILE", default="", help="CA certificates to trust, for https")
    sending.add_argument("--insecure", action="store_true", help="do not check the certificate of https targets")
    output.add_argument(
        "--out", metavar="FILE", help="write a line of JSON for each request; .gz is compressed, - is standard output"
    )
    output.add_argument("--summary", metavar="FILE", help="write the summary as JSON")
    output.add_argument(
        "--assert", dest="assertions", metavar="'p99<200ms'", action="append", default=[],
        help="an assertion: exit code 1 if it does not hold; also 'A.served>=99.9%%', 'B.denied<=5%%', 'rate>=100/s'; "
        "latencies are of accepted requests; repeatable",
    )  # fmt: skip
    output.add_argument("--json", action="store_true", help="write the summary as JSON to standard output, for scripts")
    output.add_argument("--quiet", action="store_true", help="do not show progress")
    output.add_argument(
        "--progress", metavar="TIME", help="interval of the progress display (0.5s in a terminal, else 5s)"
    )


def _redirects(text: str) -> int:
    if not text.isdigit() or len(text) > 3:
        raise ValueError(f"'{text}' is not a number such as 5, or 0 for none")
    return int(text)


# Options with one value: the field of LoadOptions, the option, and its parser.
_VALUES: tuple[tuple[str, str, Callable[[str], float]], ...] = (
    ("processes", "--processes", parse_count),
    ("connections", "--connections", parse_count),
    ("timeout_s", "--timeout", parse_positive_duration_s),
    ("connect_timeout_s", "--connect-timeout", parse_positive_duration_s),
    ("send_within_s", "--send-within", parse_positive_duration_s),
    ("body_max", "--body-max", parse_size),
    ("redirects_max", "--redirects", _redirects),
    ("clients", "-c", parse_count),
    ("lasting_s", "-z", parse_positive_duration_s),
    ("pause_s", "--pause", parse_positive_duration_s),
)


def _given(arguments: argparse.Namespace) -> dict[str, object]:
    """The fields of LoadOptions that the command line names."""
    found: dict[str, object] = {}
    for field, option, parse in _VALUES:
        text = getattr(arguments, {"-c": "clients", "-z": "lasting"}.get(option, option[2:].replace("-", "_")))
        if text is not None:
            found[field] = read_option(parse, text, option)
    for field in ("spread", "ca", "insecure", "allow_remote"):
        if value := getattr(arguments, field):
            found[field] = value
    if arguments.header:
        found["headers"] = read_fields(arguments.header, "--header")
    return found


def _act_run(arguments: argparse.Namespace) -> int:
    name: str = arguments.trace
    if name.startswith(("http://", "https://")):
        return _run_url(arguments, name)
    if (arguments.lasting or arguments.pause) and not arguments.clients:
        option = "-z" if arguments.lasting else "--pause"
        raise UsageError(f"{option} is for closed loops; add -c with the number of clients, such as -c 64")
    if arguments.method:
        raise UsageError("--method is for a URL; a trace has the method of each request")
    speed = _speed(arguments)
    with contextlib.ExitStack() as stack:
        if name == "-" or speed != 1 or arguments.body:
            name = stack.enter_context(spooled(_changed(read_trace(name), arguments, speed)))
        return _run(arguments, name, arguments.target, replace(LoadOptions(), **_given(arguments)))


def _run_url(arguments: argparse.Namespace, url: str) -> int:
    if not arguments.clients:
        raise UsageError("a URL instead of a trace is for closed loops; add -c 64 -z 10s, or make a trace")
    if arguments.target:
        raise UsageError("a URL already names the server; leave out --target, or give a trace instead of the URL")
    try:
        scheme, host, port, path = split_address(url)
    except ValueError as error:
        raise UsageError(str(error)) from None
    base = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    method = read_method(arguments.method or ("POST" if arguments.body else "GET"))
    body = read_body(arguments.body, method) if arguments.body else UNSET
    request = TraceRequest(0.0, path, method, body=body)
    if fault := fault_in(request):
        raise UsageError(fault)
    with spooled([request]) as name:
        return _run(arguments, name, [base], replace(LoadOptions(), **_given(arguments)))


def _act_replay(arguments: argparse.Namespace) -> int:
    earlier = RunFile(arguments.trace)
    if earlier.facts.closed_loop:
        raise UsageError(
            f"{arguments.trace}: the run was a closed loop, whose requests have no times; run its trace again"
        )
    speed = _speed(arguments)
    found = sorted(earlier.results(), key=lambda result: result.n)
    if not found:
        raise UsageError(f"{arguments.trace}: has no requests")
    given = _given(arguments)
    kept = options_of(earlier.facts, arguments.trace)
    if arguments.target:  # certificates and spread belong to the recorded targets
        kept = replace(kept, spread="even", ca="", insecure=False)
    elif arguments.ca or arguments.insecure:
        kept = replace(kept, ca="", insecure=False)
    headers = read_fields(arguments.header, "--header")
    names = {name.lower() for name in headers}
    given["headers"] = {**{n: v for n, v in kept.headers.items() if n.lower() not in names}, **headers}
    options = replace(kept, **given)
    tell_taken(options, set(given), earlier.facts, arguments.trace, names)
    with spooled(_changed(map(request_of, found), arguments, speed)) as name:
        return _run(arguments, name, arguments.target or earlier.facts.targets, options)


def _run(arguments: argparse.Namespace, file: str, urls: list[str], options: LoadOptions) -> int:
    targets = parse_targets(urls, options)
    assertions = [parse_assertion(text) for text in arguments.assertions]
    known = survey(read_trace(file))
    if arguments.body and known.requests and not known.takes_bodies:
        raise UsageError(f"--body: {arguments.trace} has no request with method POST, PUT or PATCH")
    if known.classes.keys() - {""}:
        for assertion in assertions:
            assertion.check_class(known.classes)
    tell_left_out(arguments, [name for name in options.headers if suggests_secret(name)])
    every_s = read_option(parse_positive_duration_s, arguments.progress, "--progress") if arguments.progress else None
    display = make_display(quiet=arguments.quiet, every_s=every_s)
    summary = send_trace(file, arguments.trace, known, targets, options, display, arguments.out)
    code = write_outputs(arguments, summary, assertions)
    return _INTERRUPTED if summary.interrupted else code


def _speed(arguments: argparse.Namespace) -> float:
    speed = read_option(lambda text: parse_number(text, "a number"), arguments.speed, "--speed")
    if speed <= 0:
        raise UsageError("--speed: has to be greater than 0")
    return speed


def _changed(requests: Iterator[TraceRequest], arguments: argparse.Namespace, speed: float) -> Iterator[TraceRequest]:
    """The requests with ``--speed`` and ``--body`` applied."""
    body = read_body(arguments.body, "POST") if arguments.body else UNSET
    for request in requests:
        own = request.body
        if own is UNSET and request.method in WITH_BODY:
            own = body
        yield replace(request, t=request.t / speed, body=own)
