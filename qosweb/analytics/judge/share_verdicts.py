"""Verdicts on shares: lower, upper and hard bounds, relations, equal shares, the rest, and the division itself.

A share is judged where there was contention, with the precision that ``resolution`` allows. A lower bound guarantees
the bound or, if that is less, the whole demand; or what the division can give, if the demand of other classes makes all
lower bounds together impossible. An upper bound allows the capacity beyond it that other classes left idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.analytics.judge.resolution import ANSWERS, resolution_of
from qosweb.analytics.read.pools import SLOT_US
from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED, EvidenceQuery, Verdict
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.model.model import Relative, Share, Word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qosweb.analytics.judge.expected_shares import ExpectedShares
    from qosweb.webqos.model.model import Constraint
    from qosweb.webqos.policy.binding import ConstraintInForce

BUSY_PART_MIN = 0.2  # of a window: in a shorter contention its edges would decide
ROUNDED = 1 + 1e-5  # the division is in whole parts per million: prefer the plain bound if both are equal
DIVISION = "each class gets its lower bound, the rest is divided evenly within the upper bounds"


class RuleJudge:
    """Makes verdicts on one rule in one part of a window."""

    def __init__(self, shares: ExpectedShares, kind: str, rule: str, line: int) -> None:
        self.shares, self.kind, self.rule, self.line = shares, kind, rule, line

    def untested(self, reason: str, demand: float | None = None) -> Verdict:
        key = self.shares.part.key
        return Verdict(
            self.kind, self.rule, key.policy, key, NOT_TESTED, reason, demand=demand, line=self.line,
            whole=None, pool=key.pool, cause=self.shares.part.cause,
        )  # fmt: skip

    def verdict(
        self, ok: bool, reason: str, demand: float, promise: float, got: float, whole: float | None,
        evidence: EvidenceQuery, unit: str = "", resolution: float = 0.0,
    ) -> Verdict:  # fmt: skip
        key, unit = self.shares.part.key, unit or self.shares.unit
        reason += self._of_what()
        return Verdict(
            self.kind, self.rule, key.policy, key, HELD if ok else VIOLATED, reason, unit, demand, promise, got, whole,
            evidence, self.line, resolution, key.pool, self.shares.part.cause,
        )  # fmt: skip

    def share(
        self, off: float, reason: str, demand: float, promise: float, got: float, evidence: EvidenceQuery,
        classes: tuple[int, ...], *, gains: bool = False,
    ) -> Verdict:  # fmt: skip
        """Verdict on a share: violated if ``off`` exceeds both the tolerance and the resolution."""
        shares = self.shares
        resolution = resolution_of(shares, classes, gains=gains)
        allowed = shares.limits.tolerance * shares.total
        if allowed < off <= resolution.amount:
            reason += f"; held: {resolution.what}"
        ok = off <= max(allowed, resolution.amount)
        return self.verdict(ok, reason, demand, promise, got, shares.total, evidence, resolution=resolution.amount)

    def _of_what(self) -> str:
        """Describes the part of the window, if it is not the whole window."""
        part, nodes = self.shares.part, self.shares.nodes
        if part.seconds >= self.shares.limits.window_s:
            return ""
        return f"; {part.seconds:g} s of the window, {'-'.join(str(count) for count in sorted(set(nodes)))} nodes"


def judge_share(shares: ExpectedShares, one: ConstraintInForce) -> Iterator[Verdict]:
    """All verdicts on one constraint on shares, one for each direction."""
    rule = shares.policy.model.constraints[one.number]
    line = shares.policy.line(one.number)
    lower, upper = shares.others(one.lower), shares.others(one.upper)
    if not lower and not upper:
        yield RuleJudge(shares, "share", rule.text, line).untested(
            "its pages are always available: no share applies to them"
        )
    elif isinstance(rule.value, Relative):
        yield from _relative(shares, rule, line, lower or upper)
    elif isinstance(rule.value, Word):
        yield _as_divided(RuleJudge(shares, f"share {rule.value.word}", rule.text, line), lower)
    elif isinstance(rule.value, Share):
        if lower:
            yield _at_least(RuleJudge(shares, "share at least", rule.text, line), lower, rule.value.ppm)
        if upper and rule.hard:
            yield _never_more(RuleJudge(shares, "share hard", rule.text, line), upper, rule.value.ppm)
        elif upper:
            yield _at_most(RuleJudge(shares, "share at most", rule.text, line), upper, rule.value.ppm)


def judge_division(shares: ExpectedShares) -> Verdict:
    """No class has less than the division gives it."""
    classes = shares.others(range(len(shares.got)))
    return _as_divided(RuleJudge(shares, "division", DIVISION, 0), classes)


def why_untested(shares: ExpectedShares, classes: tuple[int, ...]) -> str:
    """Why the shares of some classes cannot be judged; empty if they can."""
    if shares.part.busy_s <= 0 or shares.total <= 0:
        return "no contention"
    if shares.strangers:
        return f"the log has class '{shares.strangers[0]}', which the specification does not define"
    if shares.part.busy_s < BUSY_PART_MIN * shares.limits.window_s:
        return "contended for too short a time"
    if sum(shares.asked[at] for at in classes) <= 0:
        return "no requests"
    one_response = max(shares.response_max[at] for at in classes)
    if one_response > shares.limits.tolerance * shares.total:
        return "too few requests: one response is larger than the tolerance"
    return ""


def _lacking(shares: ExpectedShares, classes: tuple[int, ...]) -> EvidenceQuery:
    """Evidence that these classes lacked something: requests that were held back or, if none was, that waited."""
    held_back = any(shares.cells[at].busy_held_back for at in classes if at in shares.cells)
    names = shares.names(classes)
    return EvidenceQuery("held back", names) if held_back else EvidenceQuery("waited", names, shares.limits.waited_ms)


def _points(amount: float, shares: ExpectedShares) -> str:
    return f"{100 * amount / shares.total:.2f}%"


def _at_least(judge: RuleJudge, classes: tuple[int, ...], ppm: int) -> Verdict:
    shares = judge.shares
    if why := why_untested(shares, classes):
        return judge.untested(why)
    got, asked, expected = (sum(of[at] for at in classes) for of in (shares.got, shares.asked, shares.expected))
    bound = ppm * shares.left / PPM
    promise, of = min(
        (bound, "guaranteed"),
        (asked, "the whole demand"),
        (shares.at_least(classes, ppm) * ROUNDED, "the whole demand, moment by moment"),
        (expected * ROUNDED, "what other bounds leave"),
    )
    reason = f"{_points(got, shares)} of {_points(promise, shares)} ({of})"
    evidence = _lacking(shares, classes)
    return judge.share(promise - got, reason, asked, promise, got, evidence, classes)


def _at_most(judge: RuleJudge, classes: tuple[int, ...], ppm: int) -> Verdict:
    shares = judge.shares
    if why := why_untested(shares, classes):
        return judge.untested(why)
    got, asked, expected = (sum(of[at] for at in classes) for of in (shares.got, shares.asked, shares.expected))
    bound = ppm * shares.left / PPM
    if asked <= bound and got <= bound:
        return judge.untested("the demand was below the bound", asked)
    limit = max(bound, shares.at_most(classes, ppm))
    idle = " including idle capacity of other classes" if expected > bound else ""
    reason = f"{_points(got, shares)}, at most {_points(limit, shares)}{idle}"
    evidence = EvidenceQuery("served", shares.names(classes))
    return judge.share(got - limit, reason, asked, limit, got, evidence, classes, gains=True)


def _never_more(judge: RuleJudge, classes: tuple[int, ...], ppm: int) -> Verdict:
    """A hard bound is a part of the capacity, contended or not; if that is unknown, of what contention served."""
    shares = judge.shares
    cells = [shares.cells[at] for at in classes if at in shares.cells]
    if shares.capacity_bps is None:
        if why := why_untested(shares, classes):
            return judge.untested(f"{why}, and the capacity is not in the log")
        got, whole, left = sum(shares.got[at] for at in classes), shares.total, shares.left
        asked = sum(shares.asked[at] for at in classes)
    else:
        cost = shares.request_cost
        got = float(sum(c.sent_bytes + cost * (c.served + c.failed) for c in cells))
        asked = got + sum(shares.asked[at] - shares.got[at] for at in classes)
        whole = float(shares.capacity_bps[1] * shares.part.seconds)
        first = (shares.cells[at] for at in shares.binding.always if at in shares.cells)
        left = whole - sum(c.sent_bytes + cost * (c.served + c.failed) for c in first)
        if asked <= 0:
            return judge.untested("no requests")
    limit = ppm * max(0.0, left) / PPM
    if shares.is_of_servers:
        limit = max(limit, SLOT_US * shares.part.seconds)  # a class has at least one slot
    if asked <= limit:
        return judge.untested("the demand was below the bound", asked)
    one_response = max((shares.response_max[at] for at in classes), default=0.0)
    ok = got - limit <= max(shares.limits.tolerance * whole, one_response)
    reason = f"{100 * got / whole:.2f}%, never more than {100 * limit / whole:.2f}%"
    return judge.verdict(ok, reason, asked, limit, got, whole, EvidenceQuery("served", shares.names(classes)))


def _as_divided(judge: RuleJudge, classes: tuple[int, ...]) -> Verdict:
    """Judges the class that lacks most of its expected amount, on behalf of all."""
    shares = judge.shares
    if why := why_untested(shares, classes):
        return judge.untested(why)
    if not shares.is_of_servers and not shares.request_cost and shares.sizes_differ:
        return judge.untested("response sizes differ, and the cost of a request is not known (--request-cost)")
    if all(shares.asked[at] <= shares.got[at] for at in classes):
        return judge.untested("the whole demand was served", sum(shares.asked[at] for at in classes))
    worst = max(classes, key=lambda at: shares.due(at) - shares.got[at])
    due, got = shares.due(worst), shares.got[worst]
    name = shares.names((worst,))
    reason = f"{name[0]} has {_points(got, shares)} of {_points(due, shares)}"
    asked, evidence = shares.asked[worst], _lacking(shares, (worst,))
    return judge.share(due - got, reason, asked, due, got, evidence, (worst,))


def _relative(shares: ExpectedShares, rule: Constraint, line: int, left: tuple[int, ...]) -> Iterator[Verdict]:
    value = rule.value
    assert isinstance(value, Relative)
    judge = RuleJudge(shares, "relative", rule.text, line)
    right = shares.others(shares.policy.coverage.classes(value.pages))
    if not left or not right:
        yield judge.untested("its pages are always available: no share applies to them")
        return
    if why := why_untested(shares, (*left, *right)):
        yield judge.untested(why)
        return
    factor = value.numerator / value.denominator
    counted = rule.attribute == "num_requests"
    of_got, of_asked = (shares.counted_got, shares.counted_asked) if counted else (shares.got, shares.asked)
    got, asked = float(sum(of_got[at] for at in left)), float(sum(of_asked[at] for at in left))
    target = factor * sum(of_got[at] for at in right)
    whole = float(shares.counted_total if counted else shares.total)
    expected = sum(shares.expected[at] for at in left) * (whole / shares.total)
    of_left, of_right = (1.0 if counted else max(shares.response_max[at] for at in side) for side in (left, right))
    answers = ANSWERS * (of_left + factor * of_right)
    slack = max(shares.limits.tolerance * whole * max(1.0, factor), answers)
    unit = "requests" if counted else shares.unit
    shown = f"{got:.0f} {unit}, {factor:g} times the other side is {target:.0f}"
    names = shares.names(left)
    if rule.op in (">", "="):
        promise = min(target, asked) if counted else min(target, asked, expected)
        if target <= 0:
            yield judge.untested("nothing of the other side was served", asked)
        else:
            ok = promise - got <= slack
            yield judge.verdict(ok, shown, asked, promise, got, whole, EvidenceQuery("held back", names), unit)
    if rule.op in ("<", "="):
        limit = max(target, expected)
        if asked <= target:
            yield judge.untested("the demand was below the limit of the relation", asked)
        else:
            ok = got - limit <= slack
            yield judge.verdict(ok, shown, asked, limit, got, whole, EvidenceQuery("served", names), unit)
