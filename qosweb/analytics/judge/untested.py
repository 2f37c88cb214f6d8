"""Rules of which no window tells anything: each is named with the reason, so that nothing is passed over. Pure.

Neighbours: ``verdicts`` has the verdicts on all others; ``situations`` says what binds when.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.analytics.judge.situations import UNTOLD, asks
from qosweb.analytics.read.rows import NOT_TESTED, Verdict
from qosweb.webqos.model.model import Constraint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from qosweb.analytics.judge.situations import Situations
    from qosweb.analytics.read.policies import LoggedPolicy
    from qosweb.webqos.model.model import Rule

SHADOW = "a shadow statement is counted and binds nobody"
CHANNEL = "the log tells how long an answer took, not whether it or its client was the slower one"
LOAD = "it depends on the load, which the log does not tell"
OTHERS_LOAD = "what is left to it depends on the load, which the log does not tell"
PAGES = "it depends on accesses, and the log has too many pages to look for them"
OTHERS_PAGES = "what is left to it depends on accesses, and the log has too many pages to look for them"
NEVER = "it bound nobody in any window"
BY_ITSELF = ("available", "response_time", "in_minority")  # judged whatever the others have


def untested_rules(
    policies: Mapping[str, LoggedPolicy], situations: Mapping[str, Situations], verdicts: Iterable[Verdict]
) -> Iterator[Verdict]:
    """One for each rule that has none among the verdicts of the run."""
    judged = {(verdict.policy, verdict.rule) for verdict in verdicts}
    for name, policy in policies.items():
        when = situations.get(name)
        unsure, untold = (when.unsure, when.untold) if when else (False, UNTOLD)
        rules: list[tuple[Rule, int]] = [(rule, policy.line(at)) for at, rule in enumerate(policy.model.constraints)]
        rules += [(rule, policy.priority_line(at)) for at, rule in enumerate(policy.model.priorities)]
        for rule, line in rules:
            if (name, rule.text) not in judged:
                kind = rule.attribute if isinstance(rule, Constraint) else "priority"
                yield Verdict(kind, rule.text, name, None, NOT_TESTED, _why(rule, untold, unsure=unsure), line=line)


def _why(rule: Rule, untold: frozenset[str], *, unsure: bool) -> str:
    if rule.shadow:
        return SHADOW
    if isinstance(rule, Constraint) and rule.attribute == "channel":
        return CHANNEL
    if asks(rule, UNTOLD):
        return LOAD
    if asks(rule, untold):
        return PAGES
    if (isinstance(rule, Constraint) and rule.attribute in BY_ITSELF) or not unsure:
        return NEVER
    return OTHERS_LOAD if untold == UNTOLD else OTHERS_PAGES
