"""The exact linear program, compared with that of scipy."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from qosweb.webqos.allocation.simplex import Program


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    columns = draw(st.integers(1, 5))
    row = st.lists(st.integers(-4, 4), min_size=columns, max_size=columns)
    rows = [*draw(st.lists(row, max_size=5)), [1] * columns]  # the last one bounds all
    return rows, [draw(st.integers(0, 30)) for _ in rows]


@settings(max_examples=150)
@given(programs(), st.data())
def test_one_objective_after_the_other(program: tuple[list[list[int]], list[int]], data: st.DataObject) -> None:
    rows, limits = program
    columns = len(rows[0])
    exact = Program(columns, [dict(enumerate(row)) for row in rows], limits)
    uppers, bounds = [list(map(float, row)) for row in rows], list(map(float, limits))
    for one in data.draw(st.permutations(range(columns))):
        if one in exact.zero:
            continue
        risen = exact.raise_together([(one, 1)])
        goal = [-float(c == one) for c in range(columns)]
        found = linprog(goal, A_ub=uppers, b_ub=bounds, method="highs")
        assert float(risen) == pytest.approx(-found.fun, abs=1e-6)
        uppers.append(goal)
        bounds.append(-float(risen) + 1e-9)


def test_fractions_stay_exact() -> None:
    exact = Program(2, [{0: 3, 1: 1}, {0: 1, 1: 7}], [1, 1])
    assert exact.raise_together([(0, 1), (1, 1)]) == Fraction(1, 8)
    assert exact.zero >= {0, 1, 3}


def test_unbounded_programs_are_rejected() -> None:
    with pytest.raises(ValueError, match="unbounded"):
        Program(2, [{0: -1, 1: 1}], [1]).raise_together([(0, 1)])
