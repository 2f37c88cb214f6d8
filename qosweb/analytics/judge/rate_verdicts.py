"""Verdicts on rates: lower and upper bounds in requests or bytes per second.

A rate is absolute. Its upper bound is judged over the whole part of the window, contended or not. Its lower bound is
judged in the contended slots: there the bound, or the whole demand if that is less, had to be served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.analytics.judge.share_verdicts import RuleJudge
from qosweb.analytics.read.rows import EvidenceQuery, Verdict
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.model.model import Bytes, Requests
from qosweb.webqos.policy.binding import as_ppm
from qosweb.webqos.policy.environment import ShareBasis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qosweb.analytics.judge.expected_shares import ExpectedShares
    from qosweb.webqos.policy.binding import ConstraintInForce


def judge_rate(shares: ExpectedShares, one: ConstraintInForce, *, whatever_the_load: bool = False) -> Iterator[Verdict]:
    """Judges the bounds of one rate; if the load is not known, only the upper bound, which does not depend on it."""
    rule = shares.policy.model.constraints[one.number]
    assert isinstance(rule.value, Requests | Bytes)
    line = shares.policy.line(one.number)
    if (lower := shares.others(one.lower)) and not whatever_the_load:
        yield _at_least(RuleJudge(shares, "rate at least", rule.text, line), lower, rule.value, one)
    if one.upper:
        yield _at_most(RuleJudge(shares, "rate at most", rule.text, line), one.upper, rule.value)


def _at_least(judge: RuleJudge, classes: tuple[int, ...], value: Requests | Bytes, one: ConstraintInForce) -> Verdict:
    shares, busy_s = judge.shares, judge.shares.part.busy_s
    counted = isinstance(value, Requests)
    if busy_s <= 0:
        return judge.untested("no contention")
    got = sum((shares.counted_got if counted else shares.got)[at] for at in classes) / busy_s
    asked = sum((shares.counted_asked if counted else shares.asked)[at] for at in classes) / busy_s
    if asked <= 0:
        return judge.untested("no requests")
    bound = shares.rate_bound(value, most=False)
    promise = min(bound, asked) * _part_that_yields(shares, classes, one)
    unit = "requests/s" if counted else "bytes/s"
    one_response = 1.0 if counted else max(shares.response_max[at] for at in classes)
    ok = promise - got <= shares.limits.rate_tolerance * promise + one_response / busy_s
    reason = f"{got:.2f} of {promise:.2f} {unit}{' (the whole demand)' if asked < bound else ''}"
    return judge.verdict(ok, reason, asked, promise, got, None, EvidenceQuery("held back", shares.names(classes)), unit)


def _part_that_yields(shares: ExpectedShares, classes: tuple[int, ...], one: ConstraintInForce) -> float:
    """1, or less where the capacity is too small for all lower bounds together: they shrink in proportion."""
    if shares.total <= 0:
        return 1.0
    rule = shares.policy.model.constraints[one.number]
    served = sum(shares.counted_got[at] for at in classes)
    size = max(1, int(sum(shares.got[at] for at in classes) / served)) if served else 1
    per_s = max(1, int(shares.total / shares.part.busy_s))
    floor, _ = as_ppm(rule, ShareBasis(shares.nodes[0], per_s, size))
    wanted = min((floor or 0) * shares.total / PPM, sum(shares.asked[at] for at in classes))
    expected = sum(shares.expected[at] for at in classes)
    return min(1.0, expected / wanted) if wanted > 0 else 1.0


def _at_most(judge: RuleJudge, classes: tuple[int, ...], value: Requests | Bytes) -> Verdict:
    shares, seconds = judge.shares, judge.shares.part.seconds
    counted = isinstance(value, Requests)
    cells = [shares.cells[at] for at in classes if at in shares.cells]
    got = sum(c.served if counted else c.sent_bytes for c in cells) / seconds
    held_back = sum(
        c.held_back + c.refused for c in cells
    )  # 429 enforces an upper bound, so refused requests are demand
    unit = "requests/s" if counted else "bytes/s"
    bound = shares.rate_bound(value, most=True)
    if sum(c.requests + c.refused for c in cells) == 0:
        return judge.untested("no requests")
    if got <= bound and not held_back:
        return judge.untested("the demand was below the bound", got)
    one_response = 1.0 if counted else max((shares.response_max[at] for at in classes), default=0.0)
    ok = got - bound <= shares.limits.rate_tolerance * bound + one_response / seconds
    size = sum(c.sent_bytes for c in cells) / max(1, sum(c.served for c in cells))
    asked = got + held_back * (1.0 if counted else size) / seconds
    reason = f"{got:.2f}, at most {bound:.2f} {unit}"
    return judge.verdict(ok, reason, asked, bound, got, None, EvidenceQuery("served", shares.names(classes)), unit)
