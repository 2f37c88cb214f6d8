"""Distribution of requests over targets: all to one, even, or skewed. Pure."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from qosweb.errors import UsageError
from qosweb.units import parse_number

if TYPE_CHECKING:
    from collections.abc import Sequence

_GOLDEN = 0.6180339887498949


class Spread:
    """Chooses the target of a request by its number in the trace.

    The multiples of the golden ratio, modulo 1, are spread evenly over [0, 1), and so are those of every k-th number:
    a target gets its share of the requests to within a few, whatever pattern the trace has.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        total = sum(weights)
        self._bounds = [bound / total for bound in accumulate(weights)]
        self._bounds[-1] = 2.0  # beyond any rounding
        self._only = next((at for at, weight in enumerate(weights) if weight == total), -1)

    def target_of(self, number: int) -> int:
        if self._only >= 0:
            return self._only
        place = number * _GOLDEN % 1.0
        for at, bound in enumerate(self._bounds):
            if place < bound:
                return at
        raise AssertionError(place)


def written(weights: Sequence[float]) -> str:
    """Weights as ``parse_spread`` reads them."""
    return ",".join(f"{weight:.9f}" for weight in weights)


def parse_spread(text: str, count: int) -> list[float]:
    """Weights of targets: ``one`` (the first), ``even``, ``skewed[:S]`` (the n-th gets n^-S), or ``70,20,10``."""
    kind, _, given = text.partition(":")
    if kind == "one" and not given:
        return [1.0] + [0.0] * (count - 1)
    if kind == "even" and not given:
        return [1.0] * count
    if kind == "skewed":
        try:
            exponent = parse_number(given, "a number") if given or ":" in text else 1.0
        except ValueError:
            raise UsageError(f"--spread '{text}': write skewed, or another exponent such as skewed:1.5") from None
        return [(at + 1) ** -min(exponent, 20.0) for at in range(count)]
    try:
        weights = [parse_number(part, "a number") for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--spread '{text}': write one, even, skewed, skewed:1.5, or a weight for each target such as 70,20,10"
        ) from None
    if len(weights) != count:
        raise UsageError(f"--spread '{text}': {len(weights)} weights for {count} targets; write one for each --target")
    if not any(weights):
        raise UsageError(f"--spread '{text}': at least one target needs a weight above 0")
    return weights
