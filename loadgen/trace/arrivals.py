"""Arrival process: generates requests in order of time from a rate curve, a page mix and a random seed. Pure.

Times come from a process of rate one, evenly spaced or Poisson, whose clock is the area under the curve: where the
curve is twice as high, that clock runs twice as fast. This gives exactly the inhomogeneous process of that rate. Flash
crowds divide the curve into stages; within a stage each class has a constant share of the requests.
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from loadgen.trace.page_mix import Dice, MixPart, Pages, draw
from loadgen.trace.request import TraceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from msgspec import UnsetType

    from loadgen.trace.curves import CurvePiece
    from loadgen.trace.flash_crowds import Crowd

KINDS = ("poisson", "constant")


class ArrivalStage(NamedTuple):
    """A piece of the rate curve of all classes, and the cumulative weights of the classes in it."""

    piece: CurvePiece
    bounds: list[float]


def stages(curve: Sequence[CurvePiece], mix: Sequence[MixPart], crowds: Sequence[Crowd]) -> list[ArrivalStage]:
    """Divide the curve into stages. The curve is the total rate without crowds; crowds add to it."""
    total_weight = sum(part.weight for part in mix)
    found = []
    for piece in curve:
        edges = {edge for crowd in crowds for edge in (crowd.begin_s, crowd.end_s)}
        cuts = [piece.begin_s, *sorted(e for e in edges if piece.begin_s < e < piece.end_s), piece.end_s]
        for begin_s, end_s in pairwise(cuts):
            middle_s = (begin_s + end_s) / 2
            weights = [part.weight * _factor(part.class_name, middle_s, crowds) for part in mix]
            scale = sum(weights) / total_weight
            cut = piece.cut(begin_s, end_s)
            scaled = cut._replace(rate=cut.rate * scale, rate_end=cut.rate_end * scale)
            found.append(ArrivalStage(scaled, list(accumulate(weights))))
    return found


def _factor(class_name: str, at_s: float, crowds: Sequence[Crowd]) -> float:
    factor = 1.0
    for crowd in crowds:
        if crowd.class_name in ("", class_name) and crowd.begin_s <= at_s < crowd.end_s:
            factor *= crowd.factor
    return factor


def arrivals(course: Sequence[ArrivalStage], kind: str, dice: Dice) -> Iterator[tuple[float, ArrivalStage]]:
    """Yield the times of requests with their stages."""
    wanted = 0.0 if kind == "constant" else _exponential(dice)
    before = 0.0
    for stage in course:
        area = stage.piece.area
        while wanted < before + area:
            yield stage.piece.when(wanted - before), stage
            wanted += 1.0 if kind == "constant" else _exponential(dice)
        before += area


def _exponential(dice: Dice) -> float:
    return -math.log(1.0 - dice.random())


def requests(
    course: Sequence[ArrivalStage],
    mix: Sequence[MixPart],
    *,
    kind: str,
    zipf_exponent: float,
    method: str,
    dice: Dice,
    body: int | str | UnsetType = UNSET,
    headers: Mapping[str, dict[str, str]] | None = None,
) -> Iterator[TraceRequest]:
    """Yield the requests of a new trace, with times in whole microseconds. ``headers`` are fields by class."""
    pages = [Pages(part, zipf_exponent) for part in mix]
    fields = [(headers or {}).get(part.class_name) or UNSET for part in mix]
    for t_s, stage in arrivals(course, kind, dice):
        at = draw(stage.bounds, dice) if len(mix) > 1 else 0
        yield TraceRequest(round(t_s, 6), pages[at].draw(dice), method, mix[at].class_name, fields[at], body)
