"""Checks for contradictions: constraints that cannot hold together, and cycles in priorities, in any situation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.feasibility import contradiction
from qosweb.webqos.allocation.problem import PPM, Problem, ShareBound
from qosweb.webqos.check.access_implications import implied_accesses
from qosweb.webqos.check.feasibility_questions import FeasibilityQuestion, RateQuestions, part_of, share_question
from qosweb.webqos.check.situations import describe_situation, distinct_situations
from qosweb.webqos.model.model import Word
from qosweb.webqos.policy.binding import Binding, bind
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.policy.priority_cycles import find_cycle
from qosweb.webqos.policy.terms import ConflictingValues, terms_of
from qosweb.webqos.syntax.diagnostics import Note, error, warning
from qosweb.webqos.syntax.positions import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qosweb.webqos.model.domains import Situation
    from qosweb.webqos.model.model import Model, Rule
    from qosweb.webqos.specification import Specification
    from qosweb.webqos.syntax.diagnostics import Diagnostic

CONTRADICTIONS_MAX = 20
FLOORS_MANY = 100
NOTES_MAX = 10
RATIOS_MAX = 20
EFFORT_MAX = 400_000  # situations times rules and classes: limits the check to a few seconds


def check_contradictions(policy: Specification, model: Model) -> Iterator[Diagnostic]:
    """Report a smallest set of contradicting rules for each contradiction."""
    checker = _Checker(policy, model)
    yield from checker.priorities()
    yield from checker.shares()


class _Checker:
    def __init__(self, policy: Specification, model: Model) -> None:
        self._policy = policy
        self._model = model
        self._coverage = Coverage(model)
        self._implied_accesses = implied_accesses(model)
        self._rates = RateQuestions(model, self._coverage)
        self._reported: set[tuple[int, ...]] = set()

    def priorities(self) -> Iterator[Diagnostic]:
        """Report cycles."""
        rules: list[Rule] = list(self._model.priorities)
        if not rules:
            return
        reported: set[tuple[int, ...]] = set()
        for situation in distinct_situations(rules, self._implied_accesses)[0]:
            binding = bind(self._model, self._coverage, situation)
            without: set[int] = set()  # priorities that close cycles found before
            while involved := tuple(sorted({*find_cycle(binding, len(self._model.classes), without)})):
                without.add(involved[-1])
                if involved in reported:
                    continue
                reported.add(involved)
                *first, last = (self._policy.priority_rules[number] for number in involved)
                when = describe_situation(
                    self._model, situation, [self._model.priorities[number] for number in involved]
                )
                yield error(
                    last.constraint.span,
                    f"the priorities form a cycle{f' ({when})' if when else ''}",
                    "remove one of them" if first else "a class cannot come before itself",
                    [Note(rule.constraint.span, "together with this") for rule in first],
                )
                if len(reported) >= CONTRADICTIONS_MAX:
                    return

    def shares(self) -> Iterator[Diagnostic]:
        model = self._model
        rules: list[Rule] = [rule for rule in model.constraints if not rule.shadow]
        found, partly = distinct_situations(rules, self._implied_accesses)
        most = max(3, EFFORT_MAX // (1 + len(rules) + len(model.classes)))
        partly = partly or len(found) > most
        del found[most:]
        if partly:
            yield warning(
                Span(0, 0),
                "too many combinations of conditions: not all were checked for contradictions",
                "use fewer different conditions for a complete check",
            )
        asked: dict[tuple[Problem, int], FeasibilityQuestion] = {}
        for situation in found:
            binding = bind(model, self._coverage, situation)
            yield from self._terms(binding)
            for one in (
                share_question(model, self._coverage, situation, binding),
                *self._rates.questions(situation, binding),
            ):
                if one.problem.floors or one.problem.ratios or one.problem.equal:
                    asked.setdefault((one.problem, one.capacity), one)
        starved = False
        for one in asked.values():
            if len(self._reported) >= CONTRADICTIONS_MAX:
                return
            core = _too_much(one) or contradiction(one.problem, one.capacity)
            if core is not None and one.is_far:
                yield from self._too_many_nodes(core, one)
            elif core is not None:
                situation = self._rates.when_first(core, one) if one.is_grown else one.situation
                yield from self._contradiction(self._with_equals(core, one), situation)
            elif not starved and one.capacity == PPM:
                for warned in self._starved(one.problem, one.binding):
                    starved = True
                    yield warned

    def _contradiction(self, core: tuple[int, ...], situation: Situation) -> Iterator[Diagnostic]:
        if core in self._reported or not core:
            return
        self._reported.add(core)
        rules = [self._policy.constraint_rules[number] for number in core]
        when = describe_situation(self._model, situation, [self._model.constraints[number] for number in core])
        *others, last = sorted(rules, key=lambda rule: rule.span.start)
        message = "these constraints contradict each other" if others else "this constraint cannot be kept"
        yield error(
            last.constraint.span,
            f"{message}{f' ({when})' if when else ''}",
            "no division of the capacity keeps all of them" if others else "",
            [
                Note(
                    rule.constraint.span,
                    "together with this"
                    if at < NOTES_MAX - 1 or len(others) == NOTES_MAX
                    else f"together with this and {len(others) - NOTES_MAX} more",
                )
                for at, rule in enumerate(others[:NOTES_MAX])
            ],
        )

    def _with_equals(self, core: tuple[int, ...], asked: FeasibilityQuestion) -> tuple[int, ...]:
        """Add the ``equal`` statements that the contradiction depends on."""
        if not asked.problem.equal:
            return core
        equals = {
            one.number: one.lower
            for one in asked.binding.in_force
            if self._model.constraints[one.number].value == Word("equal")
        }
        needed = dict(equals)
        for number in equals:
            fewer = {other: classes for other, classes in needed.items() if other != number}
            members = sorted({at for classes in fewer.values() for at in classes}.difference(asked.binding.always))
            if contradiction(part_of(asked.problem, core, members), asked.capacity) is not None:
                needed = fewer
        return tuple(sorted({*core, *needed}))

    def _too_many_nodes(self, core: tuple[int, ...], asked: FeasibilityQuestion) -> Iterator[Diagnostic]:
        """Warn about bounds that contradict each other in a larger cluster."""
        if core in self._reported:
            return
        self._reported.add(core)
        first = self._rates.when_first(core, asked).number("nodes", "")
        *others, last = (self._policy.constraint_rules[number] for number in core)
        yield warning(
            last.constraint.span,
            f"from {first} nodes on, these constraints contradict each other",
            f"add a condition on the number of nodes: nodes < {first} => ...",
            [Note(rule.constraint.span, "together with this") for rule in others[:NOTES_MAX]],
        )

    def _starved(self, problem: Problem, binding: Binding) -> Iterator[Diagnostic]:
        """Warn about bounds that leave no capacity for the default class, or for pages in relative bounds."""
        default = self._model.default
        names = {default: "'default', the pages without rules"} if problem.floors else {}
        for ratio in problem.ratios[:RATIOS_MAX]:
            names |= {at: f"'{self._model.classes[at].name}'" for side in (ratio.left, ratio.right) for at in side[:1]}
        for at, name in names.items():
            if at in binding.always or any(at in bound.classes and bound.ppm for bound in problem.floors):
                continue
            if any(at in bound.classes and not bound.ppm for bound in problem.ceilings):
                continue
            floors = (*problem.floors, ShareBound((at,), 1, -1))
            core = contradiction(Problem(problem.classes, floors, problem.ceilings, problem.ratios))
            involved = sorted(number for number in core or () if number >= 0)
            if not involved:
                continue
            *others, last = (self._policy.constraint_rules[number] for number in involved)
            bounds = "lower bounds" if at == default else "bounds"
            yield warning(
                last.constraint.span,
                f"the {bounds} leave nothing for {name}",
                "under contention such pages are not served; leave a share for them",
                [Note(rule.constraint.span, "together with this") for rule in others],
            )
            return

    def _terms(self, binding: Binding) -> Iterator[Diagnostic]:
        """Report attributes with two values for the same class."""
        attributes = {"lifetime", "channel", "in_minority", "cost"}
        setting = [one for one in binding.in_force if self._model.constraints[one.number].attribute in attributes]
        for number in sorted({at for one in setting for at in one.lower}):
            try:
                terms_of(self._model, self._coverage, binding, number)
            except ConflictingValues as two:
                core = tuple(sorted(two.constraints))
                if core in self._reported:
                    continue
                self._reported.add(core)
                first, last = (self._policy.constraint_rules[at] for at in core)
                attribute = self._model.constraints[core[1]].attribute
                same = len({self._model.constraints[at].pages for at in core}) == 1
                yield error(
                    last.constraint.span,
                    f"'{attribute}' has two values for the class '{self._model.classes[number].name}'",
                    "remove one of them"
                    if same
                    else "the smaller of two sets of pages decides, but neither of these contains the other",
                    [Note(first.constraint.span, "the other is here")],
                )


def _too_much(asked: FeasibilityQuestion) -> tuple[int, ...] | None:
    """The largest lower bounds whose sum exceeds the capacity. Only for a great number of bounds.

    For so many, a smallest contradiction could take minutes to find.
    """
    problem = asked.problem
    if asked.capacity != PPM or len(problem.floors) < FLOORS_MANY:
        return None
    taken: set[int] = set()
    total = 0
    core: list[int] = []
    for bound in sorted(problem.floors, key=lambda bound: (-bound.ppm, bound.constraint)):
        if taken.isdisjoint(bound.classes):
            taken.update(bound.classes)
            total += bound.ppm
            core.append(bound.constraint)
            if total > PPM:
                return tuple(sorted(core))
    return None
