"""Relations between shares: decides which relations are imposed and which are released. Pure.

The rule of release is in the specification, in ``shares``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qosweb.webqos.allocation.general import Relation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qosweb.webqos.allocation.groups import Exact
    from qosweb.webqos.allocation.problem import Problem


class State(NamedTuple):
    """Relations in force, those that were imposed, those that were released, and classes that keep their demand."""

    relations: list[Relation]
    imposed: list[Relation]
    released: list[Relation]
    full: list[tuple[int, ...]]


class Relations:
    """The relations of a problem: upper bounds, which always bind, and relations that can be released."""

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
        self._equal = problem.equal
        self.any = bool(problem.ratios or problem.equal)
        self.at_first = self._state([], [])

    def _state(self, imposed: list[Relation], released: list[Relation]) -> State:
        full = [*dict.fromkeys(relation.left for relation in released)]
        return State([*self._always, *imposed], imposed, released, full)

    def judge(self, exact: Exact, demand: Sequence[int], state: State) -> State:
        """The next state: broken relations are imposed, and imposed ones released."""
        is_full = [amount == asked * exact.scale for amount, asked in zip(exact.amounts, demand, strict=True)]
        lapsed = [
            relation
            for relation in state.imposed
            if all(is_full[one] for one in relation.left) and not relation.surplus(exact.amounts)
        ]
        known = {*state.imposed, *state.released}
        broken = [relation for relation in self._broken(exact.amounts, is_full) if relation not in known]
        if not broken and not lapsed:
            return state
        imposed = [relation for relation in state.imposed if relation not in lapsed]
        return self._state([*imposed, *broken], [*state.released, *lapsed])

    def _broken(self, amounts: Sequence[int], is_full: Sequence[bool]) -> Iterator[Relation]:
        """Relations that do not hold although the left side has unmet demand; equal shares are one for each pair."""
        for relation in dict.fromkeys(self._lapsing):
            if relation.surplus(amounts) < 0 and not all(is_full[one] for one in relation.left):
                yield relation
        for group in self._equal:
            most = max([amounts[one] for one in group], default=0)
            for one in group:
                if not is_full[one] and amounts[one] < most:
                    yield from (Relation((one,), (other,), 1, 1) for other in group if amounts[one] < amounts[other])
