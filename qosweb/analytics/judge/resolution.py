"""How far a measured share may deviate before it counts as a violation. Pure.

Responses are served whole. A fair scheduler is at each moment within one response of what is due to a class (Parekh and
Gallagher, 1993), so over an interval, which has two ends, within two.

Requests wait only for their lifetime. If few responses of a class fit into a lifetime, its queue is empty now and then
by chance, although other requests of the class were denied just before. Other classes then use its share. The part of
the time in which this happens follows from a bounded queue: with independent arrivals at ``rho`` times the rate that is
due, and ``k`` places, the queue is empty for (1 - rho) / (1 - rho^(k+1)) of the time (M/M/1/K; real service times vary
less than its exponential ones).

Neighbours: ``expected_shares`` has the amounts, ``share_verdicts`` uses the resolution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from qosweb.analytics.judge.expected_shares import ExpectedShares

ANSWERS = 2
_PLACES_MAX, _RHO_MAX = 200.0, 30.0  # beyond these the queue is never empty, and powers overflow
_ALIKE = 1e-6


class Resolution(NamedTuple):
    """An amount in bytes and its description."""

    amount: float
    what: str


def resolution_of(shares: ExpectedShares, classes: tuple[int, ...], *, gains: bool) -> Resolution:
    """How much ``classes`` together may have lost or, with ``gains``, won from gaps of other classes."""
    answers = ANSWERS * max((shares.response_max[at] for at in classes), default=0.0)
    expected = shares.expected
    if gains:
        mine = sum(expected[at] for at in classes)
        others = [at for at in shares.others(range(len(expected))) if at not in classes and expected[at] < shares.left]
        gaps = sum(_lost(shares, at, expected[at]) * mine / (shares.left - expected[at]) for at in others)
    else:
        gaps = sum(_lost(shares, at, expected[at]) for at in classes)
    if gaps > answers:
        return Resolution(gaps, f"gaps between short-lived requests may be {_points(gaps, shares)}")
    return Resolution(answers, f"{ANSWERS} responses are {_points(answers, shares)}")


def _lost(shares: ExpectedShares, number: int, due: float) -> float:
    """The amount due to a class while its queue is empty; the other classes divide it."""
    asked, mean = shares.asked[number], shares.mean(number)
    terms = shares.terms(number)
    if terms is None or terms.lifetime_ms is None or due <= 0 or asked <= shares.got[number]:
        return 0.0
    rho = min(_RHO_MAX, asked / due)
    places = min(_PLACES_MAX, 1 + due / shares.part.busy_s * terms.lifetime_ms / 1000 / mean)
    if abs(rho - 1) < _ALIKE:
        return due / (places + 1)
    return float(due * (1 - rho) / (1 - rho ** (places + 1)))


def _points(amount: float, shares: ExpectedShares) -> str:
    return f"{100 * amount / shares.total:.2f}%"
