"""``loadgen trace --as-log``: options, and writing the synthetic access log."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from loadgen.trace.as_log import Cluster, all_shares, log_lines
from loadgen.trace.files import Surveyor, TraceFacts
from loadgen.trace.synthetic_spec import Unnameable, specification
from qosweb.errors import UsageError, read_option
from qosweb.units import parse_count, parse_number, parse_positive_duration_s, parse_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

    from loadgen.trace.page_mix import MixPart
    from loadgen.trace.request import TraceRequest

BATCH = 5_000
SPEC_MAX = 4 << 20
NODES_MAX = 250
_OPTIONS = ("capacity", "size", "lifetime", "nodes", "share", "log_spec", "log_begin")


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("access logs")
    group.add_argument(
        "--as-log", action="store_true",
        help="write the access log of a cluster that serves each class its share, instead of the trace",
    )  # fmt: skip
    group.add_argument("--capacity", metavar="SIZE", help="capacity of the cluster per second (2MB)")
    group.add_argument("--size", metavar="SIZE", help="size of each response (16KB)")
    group.add_argument("--lifetime", metavar="TIME", help="how long a request may wait (500ms)")
    group.add_argument("--nodes", metavar="N", help="number of nodes that write lines (3)")
    group.add_argument(
        "--share",
        metavar="CLASS=P%",
        action="append",
        default=[],
        help="a class's share of the capacity; repeatable (equal shares)",
    )
    group.add_argument(
        "--log-spec", metavar="FILE", help="the specification to log as in force (one of the shares and the lifetime)"
    )
    group.add_argument(
        "--begin", dest="log_begin", metavar="TIME", help="first second of the log, 2026-11-18T12:00 (today, 0:00 UTC)"
    )


def cluster_of(arguments: argparse.Namespace, mix: Sequence[MixPart]) -> Cluster | None:
    """None without --as-log. Raises UsageError."""
    if not arguments.as_log:
        for option in _OPTIONS:
            if getattr(arguments, option):
                shown = "begin" if option == "log_begin" else option.replace("_", "-")
                raise UsageError(f"--{shown} is for access logs; add --as-log, or leave it out")
        return None
    classes = [part.class_name for part in mix]
    parts: dict[str, float] = {}
    for text in arguments.share:
        name, equals, part = text.rpartition("=")
        if not equals or name not in classes:
            raise UsageError(f"--share {text}: write CLASS=PERCENT with a class of the mix, such as A=30%")
        number = read_option(lambda given: parse_number(given.removesuffix("%"), "a part such as 30%"), part, "--share")
        parts[name] = number / 100
    if sum(parts.values()) > 1:
        raise UsageError(f"--share: the shares add up to {100 * sum(parts.values()):g}%, which is more than 100%")
    nodes = read_option(parse_count, arguments.nodes or "3", "--nodes")
    if nodes > NODES_MAX:
        raise UsageError(f"--nodes {nodes}: at most {NODES_MAX}")
    capacity, size = (
        read_option(parse_size, given or usual, option)
        for given, usual, option in ((arguments.capacity, "2MB", "--capacity"), (arguments.size, "16KB", "--size"))
    )
    if not capacity or not size:
        raise UsageError("--capacity and --size have to be greater than 0")
    lifetime_s = read_option(parse_positive_duration_s, arguments.lifetime or "500ms", "--lifetime")
    begin_s = _begin_s(arguments.log_begin)
    shares = all_shares(parts, classes)
    spec = _spec(arguments.log_spec) if arguments.log_spec else _spec_of(mix, shares, lifetime_s)
    return Cluster(capacity, size, lifetime_s, nodes, shares, begin_s, spec)


def write_log(file: BinaryIO, requests: Iterable[TraceRequest], cluster: Cluster) -> TraceFacts:
    surveyor = Surveyor(requests)
    lines = log_lines(surveyor, cluster)
    while batch := "".join(islice(lines, BATCH)):
        file.write(batch.encode())
    return surveyor.facts()


def _begin_s(text: str | None) -> float:
    if text is None:
        return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    try:
        begin = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--begin: '{text}' is not a time such as 2026-11-18T12:00 (UTC)") from None
    return (begin if begin.tzinfo else begin.replace(tzinfo=UTC)).timestamp()


def _spec_of(mix: Sequence[MixPart], shares: Mapping[str, float], lifetime_s: float) -> str:
    try:
        return specification(mix, shares, lifetime_s)
    except Unnameable as error:
        print(f"loadgen: the log has no specification: {error}, or give one with --log-spec", file=sys.stderr)
        return ""


def _spec(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            return file.read(SPEC_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--log-spec {name}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
