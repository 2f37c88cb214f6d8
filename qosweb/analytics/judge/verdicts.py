"""Judges every rule in force, in every part of every window and over the whole run. Pure.

Neighbours: ``share_verdicts``, ``rate_verdicts``, ``priority_verdicts`` and ``latency_verdicts`` judge one rule;
``expected_shares`` computes what each class should have received.
"""

from __future__ import annotations

import math
from statistics import mode
from typing import TYPE_CHECKING

from qosweb.analytics.judge import latency_verdicts, priority_verdicts, rate_verdicts, share_verdicts
from qosweb.analytics.judge.expected_shares import ExpectedShares, MadeUp
from qosweb.analytics.judge.situations import UNTOLD, uses_subject
from qosweb.analytics.read.pools import NODES, SLOT_US, Pools
from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED, AnalysisLimits, EvidenceQuery, Part, Verdict
from qosweb.webqos.model.model import Bytes, Constraint, Requests
from qosweb.webqos.policy.binding import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from qosweb.analytics.judge.situations import Situations
    from qosweb.analytics.read.policies import LoggedPolicy
    from qosweb.analytics.read.rows import PartKey
    from qosweb.analytics.read.timeline import Timeline
    from qosweb.webqos.model.model import Rule

_ADDED_UP = "share at least"
RuleKey = tuple[str, str, str, int, str]  # policy, kind, rule, line, pool

# Reasons why a rule could not be tested in any window.
SHADOW = "a shadow statement is only counted, it does not bind"
CHANNEL = "the log shows how long a response took, not whether the channel or the client was slower"
COST = "it says in what shares of servers are measured; the work in the log is in that measure"
LOAD = "it depends on the load, which is not in the log"
OTHERS_LOAD = "its share depends on other rules with a condition on the load, which is not in the log"
PAGES = "it depends on accesses, and the log has too many pages to track them"
OTHERS_PAGES = (
    "its share depends on other rules with a condition on accesses, and the log has too many pages to track them"
)
NEVER = "it applied to no request in any window"
BY_ITSELF = ("available", "response_time", "in_minority")  # judged independently of other rules


class WindowJudge:
    """Judges the parts of windows, one after the other."""

    def __init__(
        self,
        policies: Mapping[str, LoggedPolicy],
        situations: Mapping[str, Situations],
        timeline: Timeline,
        limits: AnalysisLimits,
        responses_ms: Sequence[int] = (),
        sizes: Mapping[str, float] | None = None,
        pools: Pools | None = None,
    ) -> None:
        self._policies, self._situations, self._timeline = policies, situations, timeline
        self._limits, self._responses_ms, self._sizes = limits, responses_ms, sizes or {}
        self._pools = pools or Pools()
        self._made_up: dict[PartKey, MadeUp] = {}  # of the latest part, by what is the same in all windows

    def expected_shares(self, part: Part) -> ExpectedShares:
        policy = self._policies[part.key.policy]
        begin_s = float(part.key.window_s)
        end_s = begin_s + self._limits.window_s
        when = self._situations[part.key.policy]
        means = when.means[part.key.situation]
        if part.key.scope:
            nodes = (1, 1)
        elif means.nodes is not None:
            nodes = max(1, means.nodes), max(1, means.nodes)
        else:
            nodes = self._timeline.nodes(begin_s, end_s)
        if means.capacity_bps is not None and not part.key.scope:
            capacity: tuple[int, int] | None = (means.capacity_bps, means.capacity_bps)
        else:
            capacity = self._timeline.capacity(begin_s, end_s, part.key.scope)
        if capacity is None and self._limits.capacity_bps is not None and not part.key.scope:
            capacity = self._limits.capacity_bps, self._limits.capacity_bps
        request_cost, sizes, pool = None, self._sizes, part.key.pool
        if pool == NODES:
            request_cost = self._limits.request_cost or self._pools.request_bytes
        elif pool:
            slots = self._pools.slots(pool, begin_s, end_s)
            request_cost, sizes, capacity = 0, {}, (slots * SLOT_US, slots * SLOT_US) if slots else None
        binding = when.bindings[part.key.situation]
        made_up = self._made_up.setdefault(part.key._replace(window_s=0), MadeUp())
        return ExpectedShares(policy, binding, part, self._limits, nodes, capacity, sizes, request_cost, made_up)

    def judge(self, part: Part) -> Iterator[Verdict]:
        """Judges shares in each pool, if the log knows pools, and everything else on all requests together."""
        shares = self.expected_shares(part)
        policy = shares.policy
        unsure = self._situations[part.key.policy].unsure
        if part.key.pool:
            if not unsure:
                yield from self._judge_pool(shares)
            return
        for one in shares.binding.in_force:
            rule = policy.model.constraints[one.number]
            if self._pools and is_of_pools(rule):
                continue
            if rule.attribute == "available":
                yield priority_verdicts.judge_always(shares, one)
            elif rule.attribute == "response_time":
                yield latency_verdicts.judge_response(shares, one, self._responses_ms)
            elif rule.attribute == "in_minority":
                yield priority_verdicts.judge_minority(shares, one)
            elif rule.attribute in RESOURCES and isinstance(rule.value, Requests | Bytes):
                yield from rate_verdicts.judge_rate(shares, one, whatever_the_load=unsure)
            elif rule.attribute in RESOURCES and not unsure:
                yield from share_verdicts.judge_share(shares, one)
        if not self._situations[part.key.policy].waits_unsure:
            yield from latency_verdicts.judge_lifetimes(shares)
        if not unsure and not self._pools:
            yield from priority_verdicts.judge_priorities(shares)
            yield share_verdicts.judge_division(shares)

    @staticmethod
    def _judge_pool(shares: ExpectedShares) -> Iterator[Verdict]:
        for one in shares.binding.in_force:
            if is_of_pools(shares.policy.model.constraints[one.number]):
                yield from share_verdicts.judge_share(shares, one)
        yield from priority_verdicts.judge_priorities(shares)
        yield share_verdicts.judge_division(shares)


def is_of_pools(rule: Constraint) -> bool:
    """True if the rule holds in each pool for itself: a share of its resources."""
    return rule.attribute == "server_resource" and not isinstance(rule.value, Requests | Bytes)


def judge_run(verdicts: Iterable[Verdict], limits: AnalysisLimits) -> Iterator[Verdict]:
    """One verdict for each rule: violated if any window violated it, or if small shortfalls add up to too much.

    A lower bound on a share is also judged by the sums over all windows that tested it.
    """
    for (policy, kind, rule, line, pool), of_rule in _by_rule(verdicts).items():
        tested = [verdict for verdict in of_rule if verdict.outcome != NOT_TESTED]
        broken = [verdict for verdict in tested if verdict.outcome == VIOLATED]
        windows = f"{len(tested)} of {len(of_rule)} windows tested"
        outcome, reason = HELD, windows
        evidence: EvidenceQuery | None = None
        promise = got = whole = demand = None
        unit = tested[0].unit if tested else ""
        if not tested:
            reasons = sorted({verdict.reason for verdict in of_rule})
            outcome, reason = NOT_TESTED, "; ".join(reasons[:3])
        if tested and all(verdict.whole for verdict in tested):
            demand, promise, got, whole = (
                sum(getattr(verdict, field) or 0.0 for verdict in tested)
                for field in ("demand", "promise", "got", "whole")
            )
            if kind == _ADDED_UP and promise - got > max(limits.run_tolerance * whole, _added_up(tested)):
                outcome = VIOLATED
                reason = f"over all windows {100 * got / whole:.2f}% of {100 * promise / whole:.2f}%; {windows}"
                evidence = max(tested, key=_lacks).evidence
        if broken:
            worst = max(broken, key=_by_how_much)
            outcome, evidence = VIOLATED, worst.evidence
            reason = f"violated in {len(broken)} of {len(tested)} tested windows; the worst: {worst.reason}"
        causes = [verdict.cause for verdict in broken or tested or of_rule if verdict.cause]
        yield Verdict(
            kind, rule, policy, None, outcome, reason, unit, demand, promise, got, whole, evidence, line, pool=pool,
            cause=mode(causes) if causes else "",
        )  # fmt: skip


def verdicts_needing_evidence(of_run: Iterable[Verdict], in_windows: Iterable[Verdict]) -> list[Verdict]:
    """Verdicts that need evidence.

    First, of each rule that was violated only over all windows, the window that lacks most: there are few of these.
    Then every violated window.
    """
    in_windows = list(in_windows)
    by_rule = _by_rule(in_windows)
    short = []
    for verdict in of_run:
        of_rule = by_rule.get(_rule(verdict), [])
        if verdict.outcome == VIOLATED and of_rule and all(one.outcome != VIOLATED for one in of_rule):
            short.append(max(of_rule, key=_lacks))
    return short + [verdict for verdict in in_windows if verdict.outcome == VIOLATED]


def _by_rule(verdicts: Iterable[Verdict]) -> dict[RuleKey, list[Verdict]]:
    found: dict[RuleKey, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(_rule(verdict), []).append(verdict)
    return found


def _rule(verdict: Verdict) -> RuleKey:
    return verdict.policy, verdict.kind, verdict.rule, verdict.line, verdict.pool


def _lacks(verdict: Verdict) -> float:
    return (verdict.promise or 0.0) - (verdict.got or 0.0)


def _added_up(verdicts: Iterable[Verdict]) -> float:
    """Random deviations of many windows partly cancel out: the root of the sum of squares."""
    return math.hypot(*(verdict.resolution for verdict in verdicts))


def _by_how_much(verdict: Verdict) -> float:
    if verdict.promise is None or verdict.got is None:
        return 0.0
    return abs(verdict.promise - verdict.got) / (verdict.whole or max(1.0, abs(verdict.promise)))


def outcome_of(verdicts: Iterable[Verdict]) -> str:
    outcomes = {verdict.outcome for verdict in verdicts}
    return VIOLATED if VIOLATED in outcomes else HELD if HELD in outcomes else NOT_TESTED


def untested_rules(
    policies: Mapping[str, LoggedPolicy], situations: Mapping[str, Situations], verdicts: Iterable[Verdict]
) -> Iterator[Verdict]:
    """A verdict for each rule that has none among the verdicts of the run."""
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
    if isinstance(rule, Constraint) and rule.attribute == "cost":
        return COST
    if uses_subject(rule, UNTOLD):
        return LOAD
    if uses_subject(rule, untold):
        return PAGES
    if (isinstance(rule, Constraint) and rule.attribute in BY_ITSELF) or not unsure:
        return NEVER
    return OTHERS_LOAD if untold == UNTOLD else OTHERS_PAGES
