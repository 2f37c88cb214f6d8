"""Transforms traces: slice, merge, scale, speed up or slow down. Streams in, streams out. Pure."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from loadgen.trace.page_mix import Dice
    from loadgen.trace.request import TraceRequest


def merged(traces: Iterable[Iterable[TraceRequest]]) -> Iterator[TraceRequest]:
    """All requests of all traces in order of time; at equal times in the order of the traces."""
    return heapq.merge(*traces, key=lambda request: request.t)


def sliced(trace: Iterable[TraceRequest], begin_s: float, end_s: float) -> Iterator[TraceRequest]:
    """Requests due from ``begin_s`` up to, but not including, ``end_s``, shifted to begin at 0."""
    for request in trace:
        if request.t >= end_s:
            return
        if request.t >= begin_s:
            yield replace(request, t=round(request.t - begin_s, 6))


def of_classes(trace: Iterable[TraceRequest], names: Collection[str]) -> Iterator[TraceRequest]:
    return (request for request in trace if request.class_name in names)


def faster(trace: Iterable[TraceRequest], speed: float) -> Iterator[TraceRequest]:
    """The same requests in 1/``speed`` of the time."""
    for request in trace:
        yield replace(request, t=round(request.t / speed, 6))


def denser(trace: Iterable[TraceRequest], factor: float, dice: Dice) -> Iterator[TraceRequest]:
    """``factor`` times as many requests in the same time.

    Each request is copied ``factor`` times (the fraction at random); copies fall at random times before the next one.
    """
    held: TraceRequest | None = None
    gap_s = 0.0
    for request in trace:
        if held is not None:
            gap_s = request.t - held.t
            yield from _copies(held, request.t, factor, dice)
        held = request
    if held is not None:
        yield from _copies(held, held.t + gap_s, factor, dice)


def _copies(request: TraceRequest, until_s: float, factor: float, dice: Dice) -> Iterator[TraceRequest]:
    whole = math.floor(factor)
    count = whole + (dice.random() < factor - whole)
    if not count:
        return
    yield request
    for part in sorted(dice.random() for _ in range(count - 1)):
        t_s = round(request.t + part * (until_s - request.t), 6)
        yield replace(request, t=min(max(t_s, request.t), until_s))
