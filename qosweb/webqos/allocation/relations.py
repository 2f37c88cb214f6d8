"""Shares bound to each other: which relations there are, and which of them bind at the moment. Pure.

The rule of release is in the specification, in ``shares``.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.general import Relation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.groups import Exact
    from qosweb.webqos.allocation.problem import Problem


FEW = 8  # relations are soon looked at one by one


class Relations:
    """The relations of a problem: those that bound from above and always bind, and those that can be released."""

    def __init__(self, problem: Problem) -> None:
        self._always: list[Relation] = []
        self._lapsing: list[Relation] = []
        for ratio in problem.ratios:
            at_least = Relation(ratio.left, ratio.right, ratio.denominator, ratio.numerator)
            at_most = Relation(ratio.right, ratio.left, ratio.numerator, ratio.denominator)
            if ratio.op == "<=":
                self._always.append(at_most)
            elif ratio.op == ">=":
                self._lapsing.append(at_least)
            else:
                self._lapsing += [at_least, at_most]
        self._not_equal = tuple(self._lapsing)
        self._equal = problem.equal
        for group in problem.equal:
            self._lapsing += [Relation((one,), (other,), 1, 1) for one, other in permutations(group, 2)]

    def classes(self) -> set[int]:
        """Those that relations name."""
        return {one for r in (*self._always, *self._lapsing) for one in (*r.left, *r.right)}

    def in_force(self, imposed: Iterable[int]) -> list[Relation]:
        return [*self._always, *(self._lapsing[number] for number in sorted(imposed))]

    def left(self, released: Iterable[int]) -> list[tuple[int, ...]]:
        """What keeps all its demand, because relations were released."""
        return [self._lapsing[number].left for number in sorted(released)]

    def judge(
        self, shares: Exact, demand: Sequence[int], imposed: set[int], released: set[int]
    ) -> tuple[set[int], set[int]]:
        """The relations that have to be imposed, and of those imposed the ones to be released."""
        if not imposed and len(self._lapsing) > FEW and self._hold(shares, demand):
            return set(), set()
        broken: set[int] = set()
        lapsed: set[int] = set()
        for number, relation in enumerate(self._lapsing):
            if number in released:
                continue
            surplus = _surplus(relation, shares)
            if number in imposed:
                if surplus == 0 and _full(relation, shares, demand):
                    lapsed.add(number)
            elif surplus < 0 and not _full(relation, shares, demand):
                broken.add(number)
        return broken, lapsed

    def _hold(self, shares: Exact, demand: Sequence[int]) -> bool:
        """Do all relations hold, or are those that do not to be released? Much sooner than one by one."""
        for relation in self._not_equal:
            if _surplus(relation, shares) < 0 and not _full(relation, shares, demand):
                return False
        amounts, scale = shares
        for group in self._equal:
            held_back = [amounts[one] for one in group if amounts[one] < demand[one] * scale]
            if held_back and max([amounts[one] for one in group]) > min(held_back):
                return False
        return True


def _surplus(relation: Relation, shares: Exact) -> int:
    left = sum([shares.amounts[one] for one in relation.left])
    right = sum([shares.amounts[one] for one in relation.right])
    return relation.weight_left * left - relation.weight_right * right


def _full(relation: Relation, shares: Exact, demand: Sequence[int]) -> bool:
    return all(shares.amounts[one] == demand[one] * shares.scale for one in relation.left)
