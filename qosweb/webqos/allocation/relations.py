"""Shares bound to each other: which relations there are, and which of them bind at the moment. Pure.

The rule of release is in the specification, in ``shares``.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from qosweb.webqos.allocation.general import Relation
from qosweb.webqos.allocation.groups import adder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.problem import Problem


FEW = 8  # relations are soon looked at one by one
STATES_MAX = 256


class State(NamedTuple):
    """Which relations are imposed and which released; those in force, and what keeps all its demand."""

    number: int
    imposed: frozenset[int]
    released: frozenset[int]
    relations: list[Relation]
    full: list[tuple[int, ...]]


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
        self._not_equal = len(self._lapsing)
        self._equal = problem.equal
        for group in problem.equal:
            self._lapsing += [Relation((one,), (other,), 1, 1) for one, other in permutations(group, 2)]
        self._compiled = [(adder(r.left), adder(r.right), r.weight_left, r.weight_right, r.left) for r in self._lapsing]
        self._states: dict[tuple[frozenset[int], frozenset[int]], State] = {}
        self._count = 0
        self.at_first = self.state(frozenset(), frozenset())

    def classes(self) -> set[int]:
        """Those that relations name."""
        return {one for r in (*self._always, *self._lapsing) for one in (*r.left, *r.right)}

    def state(self, imposed: frozenset[int], released: frozenset[int]) -> State:
        """What binds when these are imposed and those released."""
        key = imposed, released
        found = self._states.get(key)
        if found is None:
            if len(self._states) >= STATES_MAX:
                self._states.clear()
            self._count += 1
            relations = [*self._always, *(self._lapsing[number] for number in sorted(imposed))]
            left = [self._lapsing[number].left for number in sorted(released)]
            found = self._states[key] = State(self._count, imposed, released, relations, left)
        return found

    def judge(self, amounts: Sequence[int], scale: int, demand: Sequence[int], state: State) -> State:
        """What has to bind in place of this: broken relations are imposed, and imposed ones released."""
        if not self._lapsing or (not state.imposed and len(self._lapsing) > FEW and self._hold(amounts, scale, demand)):
            return state
        broken: list[int] = []
        lapsed: list[int] = []
        imposed, released = state.imposed, state.released
        for number, (left_of, right_of, weight_left, weight_right, left) in enumerate(self._compiled):
            surplus = weight_left * left_of(amounts) - weight_right * right_of(amounts)
            if surplus > 0 or number in released:
                continue
            if number in imposed:
                if not surplus and all(amounts[one] == demand[one] * scale for one in left):
                    lapsed.append(number)
            elif surplus and not all(amounts[one] == demand[one] * scale for one in left):
                broken.append(number)
        if not broken and not lapsed:
            return state
        return self.state((imposed | {*broken}) - {*lapsed}, released | {*lapsed})

    def _hold(self, amounts: Sequence[int], scale: int, demand: Sequence[int]) -> bool:
        """Do all relations hold, or are those that do not to be released? Much sooner than one by one."""
        for left_of, right_of, weight_left, weight_right, left in self._compiled[: self._not_equal]:
            surplus = weight_left * left_of(amounts) - weight_right * right_of(amounts)
            if surplus < 0 and not all(amounts[one] == demand[one] * scale for one in left):
                return False
        for group in self._equal:
            held_back = [amounts[one] for one in group if amounts[one] < demand[one] * scale]
            if held_back and max([amounts[one] for one in group]) > min(held_back):
                return False
        return True
