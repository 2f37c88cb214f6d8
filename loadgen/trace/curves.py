"""Rate curves: request rate over time as constants, ramps, steps, days. Pure.

A curve consists of consecutive pieces, each with a linear rate. Its area is the expected number of requests, and
finding the time at which a given number is reached is a quadratic equation.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from qosweb.units import parse_number, parse_positive_duration_s

RATE_MAX = 10_000_000.0
_PIECES_PER_DAY = 96  # linear pieces of a sine: within 0.06 % of its swing
_STEPS_MAX = 10_000
_FORMS = "write such as 200 (per second), 10..200 (a ramp), 10@20s,50@20s (steps) or day:10..200"


class CurvePiece(NamedTuple):
    """From ``begin_s`` to ``end_s`` the rate goes from ``rate`` to ``rate_end``, both per second."""

    begin_s: float
    end_s: float
    rate: float
    rate_end: float

    @property
    def area(self) -> float:
        return (self.end_s - self.begin_s) * (self.rate + self.rate_end) / 2

    def rate_at(self, t_s: float) -> float:
        return self.rate + (self.rate_end - self.rate) * (t_s - self.begin_s) / (self.end_s - self.begin_s)

    def when(self, area: float) -> float:
        """The time at which the area since ``begin_s`` is ``area``."""
        slope = (self.rate_end - self.rate) / (self.end_s - self.begin_s)
        root = math.sqrt(max(0.0, self.rate * self.rate + 2 * slope * area))
        return min(self.begin_s + (2 * area / (self.rate + root) if area > 0 else 0.0), self.end_s)

    def cut(self, begin_s: float, end_s: float) -> CurvePiece:
        return CurvePiece(begin_s, end_s, self.rate_at(begin_s), self.rate_at(end_s))


def parse_curve(text: str, duration_s: float | None) -> list[CurvePiece]:
    """Parse a curve from the command line. Steps have their own duration; other curves need one."""
    if "@" in text:
        steps = _steps(text)
        if duration_s is not None and not math.isclose(duration_s, steps[-1].end_s):
            raise ValueError(f"'{text}' has its own duration of {steps[-1].end_s:g} s; leave out --duration")
        return steps
    if duration_s is None:
        raise ValueError(f"'{text}' needs a duration; add --duration, such as --duration 60s")
    if text.startswith("day:"):
        return _day(*_span(text[4:], text), duration_s)
    return [CurvePiece(0.0, duration_s, *_span(text, text))]


def _span(text: str, whole: str) -> tuple[float, float]:
    low, dots, high = text.partition("..")
    return _rate(low, whole), _rate(high if dots else low, whole)


def _rate(text: str, whole: str) -> float:
    try:
        rate = parse_number(text.strip().removesuffix("/s"), "a rate")
    except ValueError:
        raise ValueError(f"'{whole}' is not a rate; {_FORMS}") from None
    if rate > RATE_MAX:
        raise ValueError(f"'{whole}' is more than {RATE_MAX:g} per second")
    return rate


def _steps(text: str) -> list[CurvePiece]:
    pieces: list[CurvePiece] = []
    at_s = 0.0
    for step in text.split(",", _STEPS_MAX):
        rates, at, lasting = step.partition("@")
        if not at or not re.search(r"[0-9]", lasting):
            raise ValueError(f"'{step}' in '{text}' is not a step; write RATE@DURATION, such as 50@20s")
        end_s = at_s + parse_positive_duration_s(lasting)
        pieces.append(CurvePiece(at_s, end_s, *_span(rates, text)))
        at_s = end_s
    return pieces


def _day(low: float, high: float, duration_s: float) -> list[CurvePiece]:
    """From ``low`` (night) to ``high`` (noon) and back, as a sine, once in the duration."""

    def rate(part: float) -> float:
        return low + (high - low) * (1 - math.cos(2 * math.pi * part)) / 2

    return [
        CurvePiece(
            at * duration_s / _PIECES_PER_DAY,
            (at + 1) * duration_s / _PIECES_PER_DAY,
            rate(at / _PIECES_PER_DAY),
            rate((at + 1) / _PIECES_PER_DAY),
        )
        for at in range(_PIECES_PER_DAY)
    ]
