"""Sends a trace to servers: divides it among worker processes, collects their results, and returns the summary.

Used by the command line (``loadgen run``, ``loadgen replay``) and by Python programs (``run_load``).
"""

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

from msgspec.structs import replace

from loadgen.options import LoadOptions
from loadgen.results.results import RunFacts, suggests_secret
from loadgen.run.messages import Job
from loadgen.run.progress import SilentDisplay, make_display
from loadgen.run.run import LoadRun
from loadgen.send.request_bodies import check_files
from loadgen.send.resolve import parse_target
from loadgen.send.spread import parse_spread
from loadgen.trace.files import TraceFacts, read_trace, survey, write_trace, writing
from loadgen.trace.request import TraceRequest, fault_in_field
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from loadgen.results.summary import RunSummary
    from loadgen.run.progress import Display
    from loadgen.send.targets import Target

_PER_PROCESS_PER_S = 5000  # default load of a process; it can send about twice as much
_PROCESSES_MAX = 64
_CONNECTIONS_MAX = 50_000
_SPARE_FILES = 100
_TARGETS_MAX = 100
_TELL_EVERY_S, _TELL_QUIETLY_EVERY_S = 0.2, 1.0


def run_load(
    trace: str | Iterable[TraceRequest],
    targets: Sequence[str],
    options: LoadOptions | None = None,
    *,
    results: str | None = None,
    show_progress: bool = False,
) -> RunSummary:
    """Send the requests of a trace (a file name, or requests in order of time) and wait for their outcomes.

    ``targets`` are URLs such as http://127.0.0.1:8080. ``results`` is a file for a line of JSON for each request;
    .gz is compressed. Raises UsageError for invalid input.
    """
    options = options or LoadOptions()
    for name, value in options.headers.items():
        if fault := fault_in_field(name, value):
            raise UsageError(fault)
    with contextlib.ExitStack() as stack:
        file = trace if isinstance(trace, str) else stack.enter_context(spooled(trace))
        shown_name = trace if isinstance(trace, str) else "(requests)"
        return send_trace(
            file,
            shown_name,
            survey(read_trace(file)),
            parse_targets(targets, options),
            options,
            make_display(quiet=not show_progress),
            results,
        )


def send_trace(
    file: str,
    shown_name: str,
    known: TraceFacts,
    targets: list[Target],
    options: LoadOptions,
    display: Display,
    results: str | None,
) -> RunSummary:
    """``known`` describes the trace in ``file``, from a survey; ``shown_name`` is its name in messages."""
    if not known.requests:
        raise UsageError(f"{shown_name}: has no requests")
    check_files(known.body_files, shown_name)
    weights = parse_spread(options.spread, len(targets))
    tell_every_s = _TELL_QUIETLY_EVERY_S if isinstance(display, SilentDisplay) else _TELL_EVERY_S
    jobs = _jobs(file, known, targets, weights, options, want_results=bool(results), tell_every_s=tell_every_s)
    facts = _facts(shown_name, known, targets, weights, options, jobs)
    with contextlib.ExitStack() as stack:
        to = stack.enter_context(writing(results)) if results else None
        return LoadRun(jobs, facts, display, to).go()


def parse_targets(urls: Sequence[str], options: LoadOptions) -> list[Target]:
    if not urls:
        raise UsageError("--target is missing: the server to send requests to, such as --target http://127.0.0.1:8080")
    if len(urls) > _TARGETS_MAX:
        raise UsageError(f"--target: at most {_TARGETS_MAX} targets")
    return [parse_target(url, allow_remote=options.allow_remote) for url in urls]


@contextlib.contextmanager
def spooled(requests: Iterable[TraceRequest]) -> Iterator[str]:
    """Write the requests to a temporary file, which every worker process reads for itself."""
    with tempfile.TemporaryDirectory(prefix="loadgen-") as folder:
        name = str(Path(folder) / "trace.jsonl")
        with writing(name) as file:
            write_trace(file, requests)
        yield name


def _jobs(
    file: str,
    known: TraceFacts,
    targets: list[Target],
    weights: list[float],
    options: LoadOptions,
    *,
    want_results: bool,
    tell_every_s: float,
) -> list[Job]:
    clients = options.clients
    limit = clients or options.connections
    if limit > _CONNECTIONS_MAX:
        raise UsageError(f"{'-c' if clients else '--connections'}: at most {_CONNECTIONS_MAX}")
    needed = 1 if clients else min(math.ceil(known.peak_per_s / _PER_PROCESS_PER_S), (os.cpu_count() or 1) - 1)
    processes = options.processes or max(1, needed)
    if processes > _PROCESSES_MAX:
        raise UsageError(f"--processes: at most {_PROCESSES_MAX}")
    processes = min(processes, limit)
    _allow_files(math.ceil(limit / processes) * len(targets))
    if options.ca and not Path(options.ca).is_file():
        raise UsageError(f"--ca {options.ca}: no such file")
    shares = [limit // processes + (at < limit % processes) for at in range(processes)]
    return [
        Job(
            trace=file,
            part=at,
            parts=processes,
            targets=targets,
            weights=weights,
            options=replace(options, connections=share, clients=share if clients else 0),
            want_results=want_results,
            tell_every_s=tell_every_s,
        )
        for at, share in enumerate(shares)
    ]


def _allow_files(wanted: int) -> None:
    """A connection is an open file: raise the limit of open files, or report that it is too low."""
    wanted += _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise UsageError(f"--connections: needs {wanted} open files, but only {hard} are allowed (see ulimit -Hn)")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _facts(
    shown_name: str,
    known: TraceFacts,
    targets: list[Target],
    weights: list[float],
    options: LoadOptions,
    jobs: list[Job],
) -> RunFacts:
    """The description of the run in its results and summary, from which a replay takes its options."""
    return RunFacts(
        trace=shown_name,
        targets=[target.url for target in targets],
        spread=weights,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        requests=0 if options.clients else known.requests,
        duration_s=options.lasting_s if options.clients else known.duration_s,
        processes=len(jobs),
        connections=sum(job.options.connections for job in jobs),
        timeout_s=options.timeout_s,
        send_within_s=options.send_within_s,
        version=version("qosweb"),
        closed_loop=options.clients > 0,
        follow=options.redirects_max > 0,
        headers={name: value for name, value in options.headers.items() if not suggests_secret(name)},
        headers_left_out=[name for name in options.headers if suggests_secret(name)],
        redirects_max=options.redirects_max,
        connect_timeout_s=options.connect_timeout_s,
        body_max=options.body_max,
        insecure=options.insecure,
        ca=options.ca,
    )
