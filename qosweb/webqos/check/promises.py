"""Promises that cannot be kept together, at any of the times that the specification tells apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.allocation.feasibility import contradiction
from qosweb.webqos.allocation.problem import PPM, Bound, Problem
from qosweb.webqos.check.times import describe, distinct
from qosweb.webqos.model.model import Bytes, Constraint, Requests, Share
from qosweb.webqos.policy.binding import Binding, bind, problem_of
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.policy.environment import Means
from qosweb.webqos.policy.terms import TwoValues, terms_of
from qosweb.webqos.syntax.diagnostics import Note, error, warning
from qosweb.webqos.syntax.places import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qosweb.webqos.model.build import Built
    from qosweb.webqos.model.domains import Situation
    from qosweb.webqos.model.model import Model, Rule
    from qosweb.webqos.syntax.diagnostics import Diagnostic

CONTRADICTIONS_MAX = 20
FLOORS_MANY = 100
NOTES_MAX = 10
EFFORT_MAX = 400_000  # situations times rules and classes: what is looked at stays a matter of seconds


def check_promises(built: Built, model: Model) -> Iterator[Diagnostic]:
    checker = _Checker(built, model)
    yield from checker.priorities()
    yield from checker.shares()


class _Checker:
    def __init__(self, built: Built, model: Model) -> None:
        self._built = built
        self._model = model
        self._coverage = Coverage(model)
        self._said: set[tuple[int, ...]] = set()

    def priorities(self) -> Iterator[Diagnostic]:
        """A cycle is an error."""
        rules: list[Rule] = list(self._model.priorities)
        if not rules:
            return
        said: set[tuple[int, ...]] = set()
        for situation in distinct(rules)[0]:
            binding = bind(self._model, self._coverage, situation)
            cycle = _cycle(binding, len(self._model.classes))
            involved = tuple(sorted(set(cycle)))
            if not involved or involved in said:
                continue
            said.add(involved)
            *first, last = (self._built.priority_rules[number] for number in involved)
            when = describe(self._model, situation, [self._model.priorities[number] for number in involved])
            yield error(
                last.constraint.span,
                f"the order of priority goes round in a circle{f' ({when})' if when else ''}",
                "leave out one of them" if first else "a class cannot come before itself",
                [Note(rule.constraint.span, "together with this") for rule in first],
            )

    def shares(self) -> Iterator[Diagnostic]:
        model = self._model
        rules: list[Rule] = [rule for rule in model.constraints if not rule.shadow]
        found, partly = distinct(rules)
        most = max(3, EFFORT_MAX // (1 + len(rules) + len(model.classes)))
        partly = partly or len(found) > most
        del found[most:]
        if partly:
            yield warning(
                Span(0, 0),
                "the conditions can come out in too many ways: not all were checked for contradictions",
                "fewer different conditions make this complete",
            )
        problems: dict[Problem, tuple[Situation, Binding]] = {}
        for situation in found:
            binding = bind(model, self._coverage, situation)
            yield from self._terms(binding)
            means = self._means(situation)
            for only in (_is_share, _is_request_rate, _is_byte_rate):
                problem = problem_of(model, self._coverage, binding, None if only is _is_share else means, only)
                if problem.floors or problem.ratios or problem.equal:
                    problems.setdefault(problem, (situation, binding))
        starved = False
        for problem, (situation, binding) in problems.items():
            if len(self._said) >= CONTRADICTIONS_MAX:
                return
            core = _too_much(problem) or contradiction(problem)
            if core is not None:
                yield from self._contradiction(core, situation)
            elif not starved and (warned := self._starved(problem, binding)):
                starved = True
                yield warned

    def _contradiction(self, core: tuple[int, ...], situation: Situation) -> Iterator[Diagnostic]:
        if core in self._said or not core:
            return
        self._said.add(core)
        rules = [self._built.constraint_rules[number] for number in core]
        when = describe(self._model, situation, [self._model.constraints[number] for number in core])
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

    def _starved(self, problem: Problem, binding: Binding) -> Diagnostic | None:
        """Lower bounds that leave nothing for what no rule names."""
        default = self._model.default
        if default in binding.always or not problem.floors or any(default in bound.classes for bound in problem.floors):
            return None
        if any(default in bound.classes and not bound.ppm for bound in problem.ceilings):
            return None
        tried = Problem(problem.classes, (*problem.floors, Bound((default,), 1, -1)), problem.ceilings, problem.ratios)
        core = contradiction(tried)
        if core is None:
            return None
        involved = sorted(number for number in core if number >= 0)
        rules = [self._built.constraint_rules[number] for number in involved]
        if not rules:
            return None
        return warning(
            rules[-1].constraint.span,
            "the lower bounds leave nothing for 'default', the pages that no rule names",
            "under contention such pages are not served; leave a share for them",
            [Note(rule.constraint.span, "together with this") for rule in rules[:-1]],
        )

    def _terms(self, binding: Binding) -> Iterator[Diagnostic]:
        """Settings of a class that have two values."""
        wanted = {"lifetime", "channel", "in_minority"}
        setting = [one for one in binding.in_force if self._model.constraints[one.number].attribute in wanted]
        for number in sorted({at for one in setting for at in one.lower}):
            try:
                terms_of(self._model, self._coverage, binding, number)
            except TwoValues as two:
                core = tuple(sorted(two.constraints))
                if core in self._said:
                    continue
                self._said.add(core)
                first, last = (self._built.constraint_rules[at] for at in core)
                attribute = self._model.constraints[core[1]].attribute
                same = len({self._model.constraints[at].pages for at in core}) == 1
                yield error(
                    last.constraint.span,
                    f"'{attribute}' has two values for the class '{self._model.classes[number].name}'",
                    "leave out one of them"
                    if same
                    else "of two sets of pages the smaller one decides; neither of these is within the other",
                    [Note(first.constraint.span, "the other is here")],
                )

    def _means(self, situation: Situation) -> Means:
        """Rates are compared with each other alone: a capacity that all of them fit into."""
        nodes = situation.number("nodes", "") or 1
        total = 1
        for rule in self._model.constraints:
            if isinstance(rule.value, Bytes):
                total += rule.value.bps * (nodes if rule.value.per_node else 1)
            elif isinstance(rule.value, Requests):
                total += rule.value.mrps * (nodes if rule.value.per_node else 1)
        return Means(nodes, total * 2, 1_000)


def _too_much(problem: Problem) -> tuple[int, ...] | None:
    """Lower bounds that alone add up to more than everything, the largest first; only where there are very many.

    Then a smallest contradiction may take minutes to find, and this one is as good.
    """
    if len(problem.floors) < FLOORS_MANY:
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


def _is_share(rule: Constraint) -> bool:
    return rule.attribute == "server_resource" or isinstance(rule.value, Share)


def _is_request_rate(rule: Constraint) -> bool:
    return rule.attribute == "num_requests" and not isinstance(rule.value, Share)


def _is_byte_rate(rule: Constraint) -> bool:
    return rule.attribute == "num_bytes" and not isinstance(rule.value, Share)


def _cycle(binding: Binding, classes: int) -> list[int]:
    """The priorities of some cycle of classes; empty if there is none."""
    after: dict[int, list[tuple[int, int]]] = {}
    for (a, b), rule in zip(binding.before, binding.before_rules, strict=True):
        after.setdefault(a, []).append((b, rule))
    state = [0] * classes  # 1: on the path, 2: done
    for start in range(classes):
        if state[start]:
            continue
        path: list[tuple[int, int]] = [(start, -1)]
        steps = [iter(after.get(start, ()))]
        state[start] = 1
        while path:
            following = next(steps[-1], None)
            if following is None:
                state[path.pop()[0]] = 2
                steps.pop()
                continue
            target, rule = following
            if state[target] == 1:
                at = next(place for place, (one, _) in enumerate(path) if one == target)
                return [*(used for _, used in path[at + 1 :]), rule]
            if not state[target]:
                state[target] = 1
                path.append((target, rule))
                steps.append(iter(after.get(target, ())))
    return []
