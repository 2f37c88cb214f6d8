"""Verdicts on precedence: availability, priorities, and behaviour outside the primary view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.analytics.judge.share_verdicts import RuleJudge, why_untested
from qosweb.analytics.read.rows import EvidenceQuery, Verdict
from qosweb.webqos.model.model import Word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qosweb.analytics.judge.expected_shares import ExpectedShares
    from qosweb.webqos.policy.binding import InForce


def judge_always(ground: ExpectedShares, one: InForce) -> Verdict:
    """No request may be denied or expire; no tolerance."""
    rule = ground.policy.model.constraints[one.number]
    judge = RuleJudge(ground, "always", rule.text, ground.policy.line(one.number))
    classes = tuple(at for at in one.lower if at in ground.cells and not ground.is_turned_away(at))
    asked = sum(ground.cells[at].requests for at in classes)
    lost = sum(ground.cells[at].lost for at in classes)
    if not asked:
        return judge.untested("no requests")
    reason = f"{lost} of {asked} requests were denied or expired"
    evidence = EvidenceQuery("lost", ground.names(classes))
    return judge.verdict(not lost, reason, asked, asked, asked - lost, None, evidence, "requests")


def judge_priorities(ground: ExpectedShares) -> Iterator[Verdict]:
    """A later class has no more than the division gives it while a class that comes first lacks something."""
    pairs: dict[int, list[tuple[int, int]]] = {}
    for pair, rule in zip(ground.binding.before, ground.binding.before_rules, strict=True):
        if not set(ground.binding.always).intersection(pair):
            pairs.setdefault(rule, []).append(pair)
    for number, of_rule in pairs.items():
        rule_text = ground.policy.model.priorities[number].text
        judge = RuleJudge(ground, "priority", rule_text, ground.policy.priority_line(number))
        allowed = ground.limits.tolerance * ground.total
        if why := why_untested(ground, tuple({at for pair in of_rule for at in pair})):
            yield judge.untested(why)
            continue
        tested = [(a, b) for a, b in of_rule if ground.asked[a] - ground.got[a] > allowed]
        if not tested:
            yield judge.untested("the classes that come first lacked nothing")
            continue
        first, then = max(tested, key=lambda pair: ground.got[pair[1]] - ground.expected[pair[1]])
        got, promise = ground.got[then], ground.expected[then]
        names = ground.names((first, then))
        lacking = ground.asked[first] - ground.got[first]
        reason = f"{names[1]} has {got:.0f} bytes, at most {promise:.0f} while {names[0]} lacks {lacking:.0f}"
        evidence = EvidenceQuery("served", names[1:])
        grain = ground.grain[then]
        yield judge.verdict(
            got - promise <= max(allowed, grain), reason, ground.asked[then], promise, got, ground.total, evidence
        )


def judge_minority(ground: ExpectedShares, one: InForce) -> Verdict:
    """Outside the primary view, pages with ``deny`` are not served, and pages with ``serve`` are.

    A denied request of ``serve`` pages is no violation: a node alone may lack capacity. If no request was served, the
    log does not show whether that was the cause.
    """
    rule = ground.policy.model.constraints[one.number]
    judge = RuleJudge(ground, "minority", rule.text, ground.policy.line(one.number))
    if not ground.part.key.scope:
        return judge.untested("applies only outside the primary view")
    deny = isinstance(rule.value, Word) and rule.value.word == "deny"
    classes = tuple(at for at in one.lower if at in ground.cells and ground.is_turned_away(at) == deny)
    asked = sum(ground.cells[at].requests for at in classes)
    if not asked:
        return judge.untested("no requests")
    served = sum(ground.cells[at].served for at in classes)
    reason = f"{served} of {asked} requests were served outside the primary view"
    if not deny and not served:
        return judge.untested(f"{reason}; the log does not show whether there was capacity for them", asked)
    evidence = EvidenceQuery("served", ground.names(classes))
    return judge.verdict(not (deny and served), reason, asked, 0 if deny else asked, served, None, evidence, "requests")
