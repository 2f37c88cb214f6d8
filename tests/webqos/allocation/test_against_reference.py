"""Shares equal those of the executable specification, whichever method found them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings

from qosweb.webqos.allocation.shares import allocate
from tests.webqos.allocation.problems import any_problems, nested_problems, with_demand
from tests.webqos.allocation.reference import reference

if TYPE_CHECKING:
    from qosweb.webqos.allocation.problem import Problem


def _distance(problem: Problem, demand: tuple[int, ...]) -> float:
    expected = reference(problem, demand)
    return max(abs(share - wanted) for share, wanted in zip(allocate(problem, demand), expected, strict=True))


@settings(max_examples=40)
@given(with_demand(nested_problems()))
def test_nested_bounds(case: tuple[Problem, tuple[int, ...]]) -> None:
    assert _distance(*case) < 2.01  # each of the two phases rounds once


@settings(max_examples=40)
@given(with_demand(any_problems(relations=False)))
def test_overlapping_bounds(case: tuple[Problem, tuple[int, ...]]) -> None:
    assert _distance(*case) < 2.01 + case[0].classes


@settings(max_examples=60)
@given(with_demand(any_problems()))
def test_relations(case: tuple[Problem, tuple[int, ...]]) -> None:
    assert _distance(*case) < 2.01 + 8 * case[0].classes  # a part lost on one side of a ratio costs the other four
