"""Options that ``loadgen replay`` takes over from the recorded run, and the notices about them.

The options are in the first line of the results file, except for headers whose names suggest a secret, because results
are shared. For such headers only the name is recorded. The user is told when a header is left out and when it is
missing in a replay.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from loadgen.options import LoadOptions
from loadgen.send.spread import written
from loadgen.trace.request import fault_in_field
from qosweb.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from loadgen.results.results import RunFacts


def options_of(earlier: RunFacts, name: str) -> LoadOptions:
    """The options of an earlier run, recorded in the file ``name``."""
    for field, value in earlier.headers.items():
        if fault := fault_in_field(field, value):
            raise UsageError(f"{name}:1: {fault}")
    return LoadOptions(
        spread=written(earlier.spread),
        connections=earlier.connections,
        timeout_s=earlier.timeout_s,
        connect_timeout_s=earlier.connect_timeout_s,
        send_within_s=earlier.send_within_s,
        body_max=earlier.body_max,
        redirects_max=earlier.redirects_max,
        headers=earlier.headers,
        ca=earlier.ca,
        insecure=earlier.insecure,
    )


def tell_taken(used: LoadOptions, given: set[str], earlier: RunFacts, name: str, headers: set[str]) -> None:
    """Print which options are taken over from the earlier run and differ from the default; ``given`` are overridden."""
    usual = LoadOptions()
    taken = [
        f"{option} {shown}"
        for option, field, shown in (
            ("--connections", "connections", str(used.connections)),
            ("--timeout", "timeout_s", _seconds(used.timeout_s)),
            ("--connect-timeout", "connect_timeout_s", _seconds(used.connect_timeout_s)),
            ("--send-within", "send_within_s", _seconds(used.send_within_s)),
            ("--body-max", "body_max", str(used.body_max)),
            ("--redirects", "redirects_max", str(used.redirects_max)),
        )
        if field not in given and getattr(used, field) != getattr(usual, field)
    ]
    fields = [f"{name}: {value}" for name, value in earlier.headers.items() if name.lower() not in headers]
    taken += [f"--header '{field}'" for field in fields]
    taken += [f"--ca {used.ca}"] if used.ca and "ca" not in given else []
    taken += ["--insecure"] if used.insecure and "insecure" not in given else []
    if taken:
        _tell(f"options taken over from {name}: {' '.join(taken)}")
    missing = [field for field in earlier.headers_left_out if field.lower() not in headers]
    if missing:
        _tell(
            f"the requests of {name} had the headers {', '.join(missing)}, whose values are not recorded; they are not "
            "sent, unless you give them again with --header"
        )


def tell_left_out(arguments: argparse.Namespace, left_out: Sequence[str]) -> None:
    """Print which header values are not written to the files of a run."""
    files = [name for name in (arguments.out, arguments.summary) if name]
    if files and left_out:
        where = " and ".join("standard output" if name == "-" else name for name in files)
        _tell(f"{', '.join(left_out)}: the name suggests a secret, so the value is not written to {where}")


def _seconds(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def _tell(text: str) -> None:
    print(f"loadgen: note: {''.join(c if c.isprintable() else '?' for c in text)}", file=sys.stderr, flush=True)
