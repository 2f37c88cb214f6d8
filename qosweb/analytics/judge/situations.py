"""Evaluates conditions over time: divides a log into situations, periods in which the same rules bind. Pure.

A slot in which the rules change belongs to no situation and is not judged. Where bounds grow with the number of nodes,
or are absolute, a change of the number of nodes or of the capacity begins another situation, too.

A log does not contain the load. Where rules depend on it, only the rules that bind at every load are kept. ``unsure``
then says that the remaining share of the other rules is unknown, ``waits_unsure`` that lifetimes depend on the load.
Where a log has too many pages to track accesses, only the rules without a condition on accesses are kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from qosweb.analytics.read.timeline import ClusterMeans
from qosweb.webqos import Environment
from qosweb.webqos.model import conditions as c
from qosweb.webqos.policy.binding import Binding, ConstraintInForce, bind
from qosweb.webqos.zones import local_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qosweb.analytics.read.policies import LoggedPolicy
    from qosweb.analytics.read.timeline import Timeline
    from qosweb.webqos.model.model import Constraint, Rule

MIXED = -1
UNTOLD = frozenset({"load"})
LOADS_MAX = 16
SLOTS_MAX = 2_000_000


class SlotSpan(NamedTuple):
    """Slots from ``first`` to ``last``, both included, in one situation."""

    first: int
    last: int
    situation: int


class Situations:
    """``bindings[n]`` are the rules that bind in situation n, ``means[n]`` its nodes and capacity; ``spans`` says when.

    Without conditions, and with bounds that do not depend on nodes and capacity, there is one situation.
    """

    def __init__(
        self,
        bindings: list[Binding],
        spans: list[SlotSpan],
        *,
        unsure: bool = False,
        waits_unsure: bool = False,
        means: Sequence[ClusterMeans] = (),
        untold: frozenset[str] = UNTOLD,
    ) -> None:
        self.bindings = bindings
        self.spans = spans
        self.unsure, self.waits_unsure = unsure, waits_unsure
        self.untold = untold  # subjects of conditions that the log does not contain
        self.means = list(means) or [ClusterMeans()] * len(bindings)

    def divided(self, steps: Sequence[tuple[float, ClusterMeans]], slot_s: int) -> Situations:
        """The same situations, also divided where nodes or capacity changed."""
        changed = [(int(at_s // slot_s), means) for at_s, means in steps]
        numbers: dict[tuple[int, ClusterMeans], int] = {}
        spans: list[SlotSpan] = []
        for span in self.spans:
            begin = max(0, bisect_left(changed, span.first, key=lambda one: one[0]) - 1)
            end = max(begin + 1, bisect_right(changed, span.last, key=lambda one: one[0]))
            first, means = span.first, changed[begin][1]
            for slot, then in (*changed[begin + 1 : end], (span.last + 1, means)):
                if first < slot:
                    known = MIXED
                    if span.situation != MIXED:
                        known = numbers.setdefault((span.situation, means), len(numbers))
                    spans.append(SlotSpan(first, slot - 1, known))
                if first <= slot <= span.last:
                    spans.append(SlotSpan(slot, slot, MIXED))
                first, means = max(first, slot + 1), then
        bindings = [self.bindings[situation] for situation, _ in numbers]
        means_of = [means for _, means in numbers]
        return Situations(
            bindings, spans, unsure=self.unsure, waits_unsure=self.waits_unsure, means=means_of, untold=self.untold
        )


class AccessTimes:
    """Access times of a watched page set: the first and last access in each slot that has any."""

    def __init__(self, times: Sequence[tuple[float, float]]) -> None:
        self._first = sorted(first for first, _ in times)
        self._last = sorted(last for _, last in times)

    def age_ms(self, at_s: float) -> int | None:
        """The time since the last access at or before ``at_s``."""
        latest = [times[place - 1] for times in (self._first, self._last) if (place := bisect_right(times, at_s))]
        return int((at_s - max(latest)) * 1000) if latest else None

    def between(self, begin_s: float, end_s: float) -> list[float]:
        found: list[float] = []
        for times in (self._first, self._last):
            found += times[bisect_right(times, begin_s) : bisect_right(times, end_s)]
        return found


def situations(
    policy: LoggedPolicy,
    timeline: Timeline,
    accesses: Mapping[int, AccessTimes] | None,
    first_slot: int,
    last_slot: int,
    slot_s: int,
) -> Situations:
    """Situations of a policy for a range of slots; a slot number is the time since 1970 divided by ``slot_s``.

    ``accesses`` is None if they are not known.
    """
    untold = UNTOLD if accesses is not None else UNTOLD | {"accessed"}
    binder = _Binder(policy, untold)
    if not policy.subjects - untold:
        binding = binder.bind(Environment(nodes=timeline.nodes(0.0, 0.0)[0]))
        bindings, spans = [binding], [SlotSpan(first_slot, last_slot, 0)]
    elif last_slot - first_slot > SLOTS_MAX:
        bindings, spans = [], [SlotSpan(first_slot, last_slot, MIXED)]
    else:
        course = _Course(policy, timeline, accesses or {})
        bindings, spans = _by_conditions(binder, course, range(first_slot, last_slot + 1), slot_s)
    found = Situations(bindings, spans, unsure=binder.unsure, waits_unsure=binder.waits_unsure, untold=untold)
    steps = timeline.steps(nodes=policy.counts_nodes, capacity=policy.is_absolute)
    return found.divided(steps, slot_s) if len(steps) > 1 or steps[0][1] != ClusterMeans() else found


def _by_conditions(binder: _Binder, course: _Course, slots: range, slot_s: int) -> tuple[list[Binding], list[SlotSpan]]:
    numbers: dict[Binding, int] = {}
    known: dict[SituationKey, Binding] = {}
    spans: list[SlotSpan] = []
    for slot in slots:
        found = set()
        for at_s in course.probes(slot * slot_s, (slot + 1) * slot_s):
            facts = course.at(at_s)
            shown = course.as_seen(facts)
            if shown not in known:
                known[shown] = binder.bind(facts)
            found.add(numbers.setdefault(known[shown], len(numbers)))
        situation = found.pop() if len(found) == 1 else MIXED
        if spans and spans[-1].situation == situation:
            spans[-1] = spans[-1]._replace(last=slot)
        else:
            spans.append(SlotSpan(slot, slot, situation))
    return list(numbers), spans


class _Binder:
    """Finds the rules that bind under given facts, at every load and, if accesses are unknown, for all accesses."""

    def __init__(self, policy: LoggedPolicy, untold: frozenset[str] = UNTOLD) -> None:
        self._policy = policy
        self._leaves_out = self.unsure = any(uses_subject(rule, untold - UNTOLD) for rule in policy.model.rules)
        self._dropped = _unknown(policy.model.constraints, untold - UNTOLD)
        waits = ("lifetime", "available")  # an always available class has no lifetime
        self.waits_unsure = any(policy.model.constraints[at].attribute in waits for at in self._dropped)
        edges = {0}
        for rule in policy.model.rules:
            for leaf in c.leaves(rule.condition) if rule.condition is not None else ():
                if isinstance(leaf, c.Within) and leaf.subject == "load":
                    edges |= {edge for low, high in leaf.ranges for edge in (low, high + 1) if 0 <= edge < c.UNBOUNDED}
        self._loads = sorted(edges)[:LOADS_MAX]

    def bind(self, facts: Environment) -> Binding:
        model, coverage = self._policy.model, self._policy.coverage
        found = [bind(model, coverage, replace(facts, load_ppm=load)) for load in self._loads]
        if all(one == found[0] for one in found) and not self._leaves_out:
            return found[0]
        self.unsure = True
        waits = [{one for one in of_load.in_force if self._is_wait(one)} for of_load in found]
        self.waits_unsure |= any(wait != waits[0] for wait in waits)
        common = set(found[0].in_force).intersection(*(one.in_force for one in found))
        always = set(found[0].always).intersection(*(one.always for one in found))
        kept = tuple(one for one in found[0].in_force if one in common and one.number not in self._dropped)
        return Binding(kept, (), tuple(sorted(always)), (), ())

    def _is_wait(self, one: ConstraintInForce) -> bool:
        return self._policy.model.constraints[one.number].attribute == "lifetime"


def uses_subject(rule: Rule, subjects: frozenset[str]) -> bool:
    """True if the condition of the rule uses one of the subjects."""
    leaves = c.leaves(rule.condition) if rule.condition is not None else ()
    return any(isinstance(leaf, c.Within) and leaf.subject in subjects for leaf in leaves)


def _unknown(rules: Sequence[Constraint], subjects: frozenset[str]) -> set[int]:
    """Rules of which it is unknown whether they bind: those that ask, and those that these may replace."""
    places = {(rule.pages, rule.attribute) for rule in rules if uses_subject(rule, subjects)}
    return {at for at, rule in enumerate(rules) if (rule.pages, rule.attribute) in places}


class SituationKey(NamedTuple):
    time_s: int
    weekday: int
    day: int
    nodes: int
    accessed: tuple[tuple[int, int], ...]


class _Course:
    """The facts that the conditions of a policy use, over the time of a log."""

    def __init__(self, policy: LoggedPolicy, timeline: Timeline, accesses: Mapping[int, AccessTimes]) -> None:
        self._policy, self._timeline, self._accesses = policy, timeline, accesses
        self._ages = _ages(policy)

    def at(self, at_s: float) -> Environment:
        time_s, weekday, day = local_time(self._policy.model.settings.offsets, int(at_s))
        ages = {number: age for number, one in self._accesses.items() if (age := one.age_ms(at_s)) is not None}
        return Environment(time_s, weekday, day, nodes=self._timeline.nodes(at_s, at_s)[0], accessed_ms=ages)

    def as_seen(self, facts: Environment) -> SituationKey:
        """The facts reduced to those that a condition uses, so that equal situations are recognised."""
        subjects = self._policy.subjects
        return SituationKey(
            facts.time_s if "time" in subjects else 0,
            facts.weekday if "weekday" in subjects else 0,
            facts.day if "date" in subjects else 1,
            facts.nodes if "nodes" in subjects else 1,
            tuple(
                (number, sum(facts.accessed_ms[number] > bound for bound in bounds))
                for number, bounds in self._ages.items()
                if number in facts.accessed_ms
            ),
        )

    def probes(self, begin_s: float, end_s: float) -> list[float]:
        """Times that catch every change within a slot: its ends, and just before and after each change."""
        edges = [at_s for at_s in self._timeline.changes if begin_s < at_s < end_s]
        for number, bounds in self._ages.items():
            if number in self._accesses:
                accesses = self._accesses[number]
                edges += accesses.between(begin_s, end_s)
                for bound in bounds:
                    edges += [
                        at + bound / 1000 for at in accesses.between(begin_s - bound / 1000, end_s - bound / 1000)
                    ]
        inside = [moment for edge in edges for moment in (edge - 0.001, edge + 0.001)]
        return [begin_s, end_s - 0.001, *(moment for moment in inside if begin_s < moment < end_s)]


def _ages(policy: LoggedPolicy) -> dict[int, tuple[int, ...]]:
    """The ages, in milliseconds, at which conditions on accesses change, by page set."""
    found: dict[int, set[int]] = {}
    for rule in policy.model.rules:
        for leaf in c.leaves(rule.condition) if rule.condition is not None else ():
            if isinstance(leaf, c.Within) and leaf.subject == "accessed":
                edges = {edge for low, high in leaf.ranges for edge in (low - 1, high)}
                found.setdefault(int(leaf.argument), set()).update(edges)
    return {number: tuple(sorted(edges)) for number, edges in found.items()}
