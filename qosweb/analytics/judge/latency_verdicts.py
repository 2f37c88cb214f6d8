"""Verdicts on times: lifetimes (the longest wait in the queue) and response times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.analytics.judge.share_verdicts import RuleJudge
from qosweb.analytics.read.rows import EvidenceQuery, Verdict
from qosweb.webqos.model.model import Duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qosweb.analytics.judge.expected_shares import ExpectedShares
    from qosweb.webqos.policy.binding import ConstraintInForce


def judge_lifetimes(shares: ExpectedShares) -> Iterator[Verdict]:
    """One verdict for each rule that sets a lifetime; that of ``set lifetime`` covers all other classes.

    Where a specification has neither, the default bound on waits is not a guarantee and is not judged.
    """
    of_rule: dict[tuple[str, int, int], list[int]] = {}
    for number in sorted(shares.cells):
        terms = shares.terms(number)
        if terms is None or terms.lifetime_ms is None:
            continue
        text, line = _lifetime_rule(shares, number, terms.lifetime_ms)
        if not line and shares.policy.model.settings.lifetime_ms is None:
            continue
        of_rule.setdefault((text, line, terms.lifetime_ms), []).append(number)
    for (text, line, lifetime_ms), classes in of_rule.items():
        judge = RuleJudge(shares, "lifetime", text, line)
        worst = max(classes, key=lambda at: shares.cells[at].wait_ms_max)
        waited_ms = shares.cells[worst].wait_ms_max
        if waited_ms < shares.limits.waited_ms:
            yield judge.untested("no request had to wait")
            continue
        most_ms = lifetime_ms + shares.limits.slack_ms
        reason = f"longest wait of {shares.names((worst,))[0]}: {waited_ms:.0f} ms, allowed: {lifetime_ms} ms"
        asked = sum(shares.cells[at].requests for at in classes)
        yield judge.verdict(
            waited_ms <= most_ms, reason, asked, lifetime_ms, waited_ms, None,
            EvidenceQuery("waited", shares.names(classes), most_ms), "ms",
        )  # fmt: skip


def _lifetime_rule(shares: ExpectedShares, number: int, lifetime_ms: int) -> tuple[str, int]:
    for one in shares.binding.in_force:
        rule = shares.policy.model.constraints[one.number]
        if rule.attribute == "lifetime" and number in one.lower and rule.value == Duration(lifetime_ms):
            return rule.text, shares.policy.line(one.number)
    return f"set lifetime = {lifetime_ms}ms", 0


def judge_response(shares: ExpectedShares, one: ConstraintInForce, limits_ms: Sequence[int]) -> Verdict:
    rule = shares.policy.model.constraints[one.number]
    assert isinstance(rule.value, Duration)
    judge = RuleJudge(shares, "response time", rule.text, shares.policy.line(one.number))
    if rule.value.ms not in limits_ms:
        return judge.untested(f"only the {len(limits_ms)} shortest response times are judged")
    place = limits_ms.index(rule.value.ms)
    cells = [shares.cells[at] for at in one.lower if at in shares.cells]
    served, slow = sum(c.served for c in cells), sum(c.slow[place] for c in cells)
    if not served:
        return judge.untested("nothing was served")
    allowed = shares.limits.slow_part * served
    reason = f"{slow} of {served} requests took longer than {rule.value.ms} ms"
    evidence = EvidenceQuery("slow", shares.names(one.lower), rule.value.ms + shares.limits.slack_ms)
    return judge.verdict(slow <= allowed, reason, served, allowed, slow, None, evidence, "requests")
