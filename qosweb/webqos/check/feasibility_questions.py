"""What is asked of the linear program: shares of the capacity, and rates, each in a unit in which nothing is rounded.

Rates of requests and of bytes are compared with each other alone, as if the capacity were beyond them all. Where bounds
grow with the cluster, the numbers of nodes with which they can be kept lie side by side (the set of all shares and
numbers that keep linear bounds is convex), so it is enough to ask for the least and for the greatest that a situation
allows; where there is no greatest, for very many.
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
    """Can these bounds be kept together?

    ``is_grown``: with more nodes than the least of the situation; ``is_far``: and than the specification speaks of.
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
        # The numbers of nodes from which on conditions come out differently.
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
        """The same with the least number of nodes with which the constraints of ``core`` contradict each other."""
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
        """In millionths of a request, or of a byte, or the largest unit of which all bounds are multiples."""

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
    """What some of the constraints say, with ``equal`` classes."""
    return Problem(
        problem.classes,
        tuple(bound for bound in problem.floors if bound.constraint in constraints),
        tuple(bound for bound in problem.ceilings if bound.constraint in constraints),
        tuple(ratio for ratio in problem.ratios if ratio.constraint in constraints),
        equal=(tuple(equal),) if len(equal) > 1 else (),
    )


def _is_share(rule: Constraint) -> bool:
    return rule.attribute == "server_resource" or isinstance(rule.value, Share)
