"""Makes a trace from a rate, a mix of pages and flash crowds, as ``loadgen trace`` does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from msgspec import UNSET

from loadgen.trace.arrivals import KINDS, requests, stages
from loadgen.trace.class_headers import parse_headers
from loadgen.trace.curves import parse_curve
from loadgen.trace.flash_crowds import parse_crowd
from loadgen.trace.page_mix import MixPart, parse_mix
from qosweb.errors import UsageError, read_option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from msgspec import UnsetType

    from loadgen.trace.request import TraceRequest

_REQUESTS_MAX = 100_000_000
_ZIPF_MAX = 20.0


def make_trace(
    rate: float | str,
    duration_s: float | None = None,
    *,
    mix: Sequence[str] = (),
    flash: Sequence[str] = (),
    arrivals: str = "poisson",
    zipf: float = 0.0,
    method: str = "GET",
    body: int | str | UnsetType = UNSET,
    headers: Sequence[str] = (),
    seed: int = 1,
) -> Iterator[TraceRequest]:
    """The requests of a new trace, in order of time; the same arguments give the same requests.

    ``rate`` is per second, or a curve: ``10..200`` (a ramp), ``10@20s,50@20s`` (steps, which need no duration),
    ``day:10..200``. ``mix`` has classes with weights and pages, ``A=30:/a.html`` or ``B=70:/b/{1..500}.html``;
    ``flash`` has crowds, ``A=x10@50s+20s``. ``zipf`` is the exponent for the pages of a range.
    ``arrivals`` is poisson or constant. ``body`` is a number of bytes or the name of a file.
    ``headers`` has fields, ``Name: value``, or ``A=Name: value`` for the class A. Raises UsageError.
    """
    parts = parse_mixes(mix)
    names = [part.class_name for part in parts]
    try:
        fields = parse_headers(headers, names)
    except ValueError as error:
        raise UsageError(f"--header: {error}") from None
    crowds = [read_option(parse_crowd, text, "--flash") for text in flash]
    for crowd in crowds:
        if crowd.class_name and crowd.class_name not in names:
            known = ", ".join(name for name in names if name) or "none"
            raise UsageError(f"--flash: the mix has no class '{crowd.class_name}'; it has {known}")
    if arrivals not in KINDS:
        raise UsageError(f"--arrivals '{arrivals}': use {' or '.join(KINDS)}")
    if not 0 <= zipf <= _ZIPF_MAX:
        raise UsageError(f"--zipf: at most {_ZIPF_MAX:g}")
    course = stages(read_option(lambda text: parse_curve(text, duration_s), str(rate), "--rate"), parts, crowds)
    expected = sum(stage.piece.area for stage in course)
    if expected > _REQUESTS_MAX:
        raise UsageError(
            f"--rate {rate}: the trace would have {expected:.3g} requests; the limit is {_REQUESTS_MAX:.0e}"
        )
    return requests(
        course,
        parts,
        kind=arrivals,
        zipf_exponent=zipf,
        method=method,
        dice=random.Random(seed),
        body=body,
        headers=fields,
    )


def parse_mixes(texts: Sequence[str]) -> list[MixPart]:
    """Parse the parts of a mix. Without any: one class without a name that requests ``/``."""
    return [read_option(parse_mix, text, "--mix") for text in texts] or [MixPart("", 1.0, "/")]
