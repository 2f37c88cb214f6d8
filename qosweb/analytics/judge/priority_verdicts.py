"""Verdicts on precedence: availability, priorities, and behaviour outside the primary view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.analytics.judge.share_verdicts import RuleJudge, why_untested
from qosweb.analytics.read.rows import EvidenceQuery, Verdict
from qosweb.webqos.model.model import Word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qosweb.analytics.judge.expected_shares import ExpectedShares
    from qosweb.webqos.policy.binding import ConstraintInForce


def judge_always(shares: ExpectedShares, one: ConstraintInForce) -> Verdict:
    """No request may be denied or expire; no tolerance."""
    rule = shares.policy.model.constraints[one.number]
    judge = RuleJudge(shares, "always", rule.text, shares.policy.line(one.number))
    classes = tuple(at for at in one.lower if at in shares.cells and not shares.is_turned_away(at))
    asked = sum(shares.cells[at].requests for at in classes)
    lost = sum(shares.cells[at].lost for at in classes)
    if not asked:
        return judge.untested("no requests")
    reason = f"{lost} of {asked} requests were denied or expired"
    evidence = EvidenceQuery("lost", shares.names(classes))
    return judge.verdict(not lost, reason, asked, asked, asked - lost, None, evidence, "requests")


def judge_priorities(shares: ExpectedShares) -> Iterator[Verdict]:
    """A later class has no more than the division gives it while a class that comes first lacks something."""
    pairs: dict[int, list[tuple[int, int]]] = {}
    for pair, rule in zip(shares.binding.before, shares.binding.before_rules, strict=True):
        if not set(shares.binding.always).intersection(pair):
            pairs.setdefault(rule, []).append(pair)
    for number, of_rule in pairs.items():
        rule_text = shares.policy.model.priorities[number].text
        judge = RuleJudge(shares, "priority", rule_text, shares.policy.priority_line(number))
        allowed = shares.limits.tolerance * shares.total
        if why := why_untested(shares, tuple({at for pair in of_rule for at in pair})):
            yield judge.untested(why)
            continue
        tested = [(a, b) for a, b in of_rule if shares.asked[a] - shares.got[a] > allowed]
        if not tested:
            yield judge.untested("the classes that come first lacked nothing")
            continue
        first, then = max(tested, key=lambda pair: shares.got[pair[1]] - shares.expected[pair[1]])
        got, promise = shares.got[then], shares.expected[then]
        names = shares.names((first, then))
        lacking = shares.asked[first] - shares.got[first]
        reason = f"{names[1]} has {got:.0f} bytes, at most {promise:.0f} while {names[0]} lacks {lacking:.0f}"
        evidence = EvidenceQuery("served", names[1:])
        one_response = shares.response_max[then]
        yield judge.verdict(
            got - promise <= max(allowed, one_response),
            reason,
            shares.asked[then],
            promise,
            got,
            shares.total,
            evidence,
        )


def judge_minority(shares: ExpectedShares, one: ConstraintInForce) -> Verdict:
    """Outside the primary view, pages with ``deny`` are not served, and pages with ``serve`` are.

    A denied request of ``serve`` pages is no violation: a node alone may lack capacity. If no request was served, the
    log does not show whether that was the cause.
    """
    rule = shares.policy.model.constraints[one.number]
    judge = RuleJudge(shares, "minority", rule.text, shares.policy.line(one.number))
    if not shares.part.key.scope:
        return judge.untested("applies only outside the primary view")
    deny = isinstance(rule.value, Word) and rule.value.word == "deny"
    classes = tuple(at for at in one.lower if at in shares.cells and shares.is_turned_away(at) == deny)
    asked = sum(shares.cells[at].requests for at in classes)
    if not asked:
        return judge.untested("no requests")
    served = sum(shares.cells[at].served for at in classes)
    reason = f"{served} of {asked} requests were served outside the primary view"
    if not deny and not served:
        return judge.untested(f"{reason}; the log does not show whether there was capacity for them", asked)
    evidence = EvidenceQuery("served", shares.names(classes))
    return judge.verdict(not (deny and served), reason, asked, 0 if deny else asked, served, None, evidence, "requests")
