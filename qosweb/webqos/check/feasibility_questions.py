"""Feasibility problems for the linear program: shares of the capacity, and rates, in units that need no rounding.

Rates of requests and of bytes are compared only with each other, as if the capacity were unlimited. For bounds that
grow with the cluster, the numbers of nodes for which they are feasible form an interval, because the set of shares and
numbers that satisfy linear bounds is convex. So it suffices to test the least and the greatest number of a situation;
if there is no greatest, a very large one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.feasibility import contradiction
from qosweb.webqos.allocation.problem import PPM, Problem
from qosweb.webqos.check.situations import grows_with_nodes
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.domains import Situation
from qosweb.webqos.model.model import Share
from qosweb.webqos.policy.binding import problem_of
from qosweb.webqos.policy.environment import ShareBasis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qosweb.webqos.model.model import Constraint, Model
    from qosweb.webqos.policy.binding import Binding
    from qosweb.webqos.policy.coverage import Coverage

NODES_MANY = 10_000


@dataclass(frozen=True, slots=True)
class FeasibilityQuestion:
    """Are these bounds feasible together?

    ``is_grown``: for more nodes than the least number of the situation. ``is_far``: also more than any condition names.
    """

    problem: Problem
    capacity: int
    situation: Situation
    binding: Binding
    is_grown: bool = False
    is_far: bool = False


def share_question(model: Model, coverage: Coverage, situation: Situation, binding: Binding) -> FeasibilityQuestion:
    return FeasibilityQuestion(problem_of(model, coverage, binding, None, _is_share), PPM, situation, binding)


class RateQuestions:
    """The feasibility problems of bounds on requests or bytes per second."""

    def __init__(self, model: Model, coverage: Coverage) -> None:
        self._model = model
        self._coverage = coverage
        rules = [rule for rule in model.constraints if not rule.shadow]
        self._kinds = [
            attribute
            for attribute in ("num_requests", "num_bytes")
            if any(rule.attribute == attribute and not isinstance(rule.value, Share) for rule in rules)
        ]
        self._grow = any(map(grows_with_nodes, rules))
        # The numbers of nodes at which the outcome of a condition changes.
        self._starts = sorted(
            {
                end
                for rule in rules
                if rule.condition is not None
                for leaf in c.leaves(rule.condition)
                if isinstance(leaf, c.Within) and leaf.subject == "nodes"
                for low, high in leaf.ranges
                for end in (low, high + 1)
            }
        )

    def questions(self, situation: Situation, binding: Binding) -> Iterator[FeasibilityQuestion]:
        least = situation.number("nodes", "") or 1
        for attribute in self._kinds:
            if not self._grow:
                yield self._question(attribute, situation, binding, least)
                continue
            greatest = next((start - 1 for start in self._starts if start > least), c.UNBOUNDED)
            for nodes in sorted({least, min(greatest, max(least, NODES_MANY))}):
                asked = self._question(attribute, situation, binding, nodes)
                is_grown = nodes > least
                yield replace(asked, is_grown=is_grown, is_far=is_grown and greatest >= NODES_MANY)

    def when_first(self, core: tuple[int, ...], asked: FeasibilityQuestion) -> Situation:
        """The situation with the least number of nodes for which the constraints in ``core`` contradict each other."""
        attribute = self._model.constraints[core[0]].attribute
        good, bad = 0, asked.situation.number("nodes", "") or NODES_MANY
        while bad - good > 1:
            nodes = (good + bad) // 2
            tried = self._question(attribute, asked.situation, asked.binding, nodes)
            if contradiction(part_of(tried.problem, core, []), tried.capacity) is None:
                good = nodes
            else:
                bad = nodes
        return Situation({**asked.situation.chosen, ("nodes", ""): bad})

    def _question(self, attribute: str, situation: Situation, binding: Binding, nodes: int) -> FeasibilityQuestion:
        """The problem in the largest unit that divides all bounds: a multiple of a millionth of a request or byte."""

        def is_rate(rule: Constraint) -> bool:
            return rule.attribute == attribute and not isinstance(rule.value, Share)

        problem = problem_of(self._model, self._coverage, binding, ShareBasis(nodes, 1, 1), is_rate)
        bounds = (*problem.floors, *problem.ceilings)
        unit = gcd(*(bound.ppm for bound in bounds)) or 1
        problem = replace(
            problem,
            floors=tuple(replace(bound, ppm=bound.ppm // unit) for bound in problem.floors),
            ceilings=tuple(replace(bound, ppm=bound.ppm // unit) for bound in problem.ceilings),
        )
        if self._grow:
            situation = Situation({**situation.chosen, ("nodes", ""): nodes})
        return FeasibilityQuestion(problem, 1 + PPM + sum(bound.ppm // unit for bound in bounds), situation, binding)


def part_of(problem: Problem, constraints: tuple[int, ...], equal: list[int]) -> Problem:
    """The problem with only some of the constraints, and with ``equal`` classes."""
    return Problem(
        problem.classes,
        tuple(bound for bound in problem.floors if bound.constraint in constraints),
        tuple(bound for bound in problem.ceilings if bound.constraint in constraints),
        tuple(ratio for ratio in problem.ratios if ratio.constraint in constraints),
        equal=(tuple(equal),) if len(equal) > 1 else (),
    )


def _is_share(rule: Constraint) -> bool:
    return rule.attribute == "server_resource" or isinstance(rule.value, Share)
