"""What a run keeps of its options, so that ``loadgen replay`` sends the same requests and judges answers alike.

They are in the first line of the results and in the summary, but for fields whose names suggest a secret: results are
given away. Of these only the names are kept, and people are told, when they are left out and when they are missing.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from loadgen.errors import UsageError
from loadgen.trace.request import fault_in_field
from loadgen.units import parse_duration_s, parse_size

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from loadgen.job import Job
    from loadgen.results import RunFacts

# Options that replay takes from the run if they are not given; run's own default of each.
DEFAULTS = {
    "connections": "1000",
    "timeout": "10s",
    "connect_timeout": "5s",
    "send_within": "5s",
    "body_max": "1GB",
    "redirects": "5",
}
_SECRET = re.compile(
    r"\bauth\b|authori[sz]ation|authenti|cookie|token|secret|passw|credential|api-?key|session", re.IGNORECASE
)


def suggests_secret(name: str) -> bool:
    """Such as Authorization, Proxy-Authorization, Cookie, X-Api-Key."""
    return _SECRET.search(name) is not None


def keep(facts: RunFacts, job: Job) -> RunFacts:
    """The facts of a run with what its processes were told."""
    return replace(
        facts,
        headers={name: value for name, value in job.headers.items() if not suggests_secret(name)},
        headers_left_out=[name for name in job.headers if suggests_secret(name)],
        redirects_max=job.redirects_max,
        connect_timeout_s=job.connect_timeout_s,
        body_max=job.body_max,
        insecure=not job.tls_verify,
        ca=job.tls_ca,
    )


def tell_left_out(arguments: argparse.Namespace, facts: RunFacts) -> None:
    """When files of a run are written."""
    files = [name for name in (arguments.out, arguments.summary) if name]
    if files and facts.headers_left_out:
        where = " and ".join("standard output" if name == "-" else name for name in files)
        _tell(f"{_listed(facts.headers_left_out)}: the name suggests a secret, so the value is not kept in {where}")


def take(arguments: argparse.Namespace, earlier: RunFacts, name: str) -> None:
    """Options that were not given are as in the run whose results are in the file ``name``."""
    found = {
        "connections": str(earlier.connections),
        "timeout": _seconds(earlier.timeout_s),
        "connect_timeout": _seconds(earlier.connect_timeout_s),
        "send_within": _seconds(earlier.send_within_s),
        "body_max": str(earlier.body_max),
        "redirects": str(earlier.redirects_max),
    }
    taken = []
    for option in DEFAULTS:
        if getattr(arguments, option) is None:
            setattr(arguments, option, found[option])
            if not _is_default(option, found[option]):
                taken.append(f"--{option.replace('_', '-')} {found[option]}")
    given = {line.partition(":")[0].strip().lower() for line in arguments.header}
    fields = _lines({name: value for name, value in earlier.headers.items() if name.lower() not in given}, name)
    taken += [f"--header '{field}'" for field in fields]
    arguments.header = [*fields, *arguments.header]
    if not arguments.target and not arguments.ca and not arguments.insecure:  # what was trusted were its own targets
        arguments.ca, arguments.insecure = earlier.ca, earlier.insecure
        taken += [f"--ca {earlier.ca}"] if earlier.ca else []
        taken += ["--insecure"] if earlier.insecure else []
    if taken:
        _tell(f"as in {name}: {' '.join(taken)}")
    missing = [field for field in earlier.headers_left_out if field.lower() not in given]
    if missing:
        _tell(
            f"the requests of {name} had {_listed(missing)}, whose values are not kept there: they are sent without, "
            "unless you give it again with --header"
        )


def _lines(fields: Mapping[str, str], name: str) -> list[str]:
    for field, value in fields.items():
        if fault := fault_in_field(field, value):
            raise UsageError(f"{name}:1: {fault}")
    return [f"{field}: {value}" for field, value in fields.items()]


def _is_default(option: str, found: str) -> bool:
    read = parse_duration_s if found.endswith("s") else parse_size
    try:
        return read(found) == read(DEFAULTS[option])
    except ValueError:  # told by whoever reads the option
        return False


def _seconds(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def _listed(names: list[str]) -> str:
    return ", ".join(names)


def _tell(text: str) -> None:
    print(f"loadgen: note: {''.join(c if c.isprintable() else '?' for c in text)}", file=sys.stderr, flush=True)
