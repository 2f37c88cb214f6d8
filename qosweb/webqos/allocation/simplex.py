"""An exact linear program that is solved objective after objective, each on the optimal face of those before. Pure.

Paper: Bland, "New finite pivoting rules for the simplex method", 1977 (the rule that cannot cycle); Edmonds' integer
pivoting (Bareiss 1968) keeps the tableau in whole numbers over one common denominator, so nothing is ever rounded.

The program is  A x + s = b,  x >= 0,  s >= 0,  with whole numbers and b >= 0: the origin is a solution, so there is no
first phase. Variables are numbers: the columns of A first, then one slack for each row, then the objectives in the
order in which they are added. In the tableau the row of a basic variable v reads

    v + sum(row[c] * nonbasic[c]) / scale = value / scale

An objective is a variable that is a sum of columns: it stands for raising several variables together. Its own row,
once it is basic, holds its reduced costs; when none is negative any more, the columns with positive ones are zero at
every optimum, and dropping them leaves exactly the optimal face.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Program:
    """A linear program in the middle of being solved."""

    def __init__(self, rows: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        columns = len(rows[0]) if rows else 0
        self._rows = [list(row) for row in rows]
        self._values = list(limits)
        self._scale = 1
        self._nonbasic = list(range(columns))
        self._basic = list(range(columns, columns + len(rows)))
        self._next = columns + len(rows)
        self.zero: set[int] = set()

    def raise_together(self, parts: Sequence[tuple[int, int]]) -> Fraction:
        """The most by which all (variable, weight) can rise together; from now on they have risen by that.

        What variables were raised by is no longer counted in their own value. Those that cannot be more than zero
        beyond that are in ``zero`` from now on, at least one of ``parts`` among them, and cannot be raised again.
        """
        objective = self._next
        self._next += 1
        self._add_column(objective, parts)
        self._enter(len(self._nonbasic) - 1)
        while True:
            row = self._rows[self._basic.index(objective)]
            improving = [
                (variable, c) for c, (variable, cost) in enumerate(zip(self._nonbasic, row, strict=True)) if cost < 0
            ]
            if not improving:
                break
            self._enter(min(improving)[1])
        return self._keep_optimal_face(objective)

    def _add_column(self, objective: int, parts: Sequence[tuple[int, int]]) -> None:
        where_nonbasic = {variable: c for c, variable in enumerate(self._nonbasic)}
        where_basic = {variable: r for r, variable in enumerate(self._basic)}
        basic = [(where_basic[variable], weight) for variable, weight in parts if variable in where_basic]
        others = [(where_nonbasic[variable], weight) for variable, weight in parts if variable not in where_basic]
        column = [sum([row[c] * weight for c, weight in others]) for row in self._rows]
        for r, weight in basic:
            column[r] += weight * self._scale
        for row, entry in zip(self._rows, column, strict=True):
            row.append(entry)
        self._nonbasic.append(objective)

    def _enter(self, c: int) -> None:
        """Make the nonbasic variable of column ``c`` basic, in place of the one that reaches zero first."""
        rows, values, basic = self._rows, self._values, self._basic
        leave = -1
        for r, row in enumerate(rows):
            if row[c] <= 0:
                continue
            if leave < 0:
                leave = r
                continue
            ours, best = values[r] * rows[leave][c], values[leave] * row[c]
            if ours < best or (ours == best and basic[r] < basic[leave]):
                leave = r
        if leave < 0:
            raise ValueError("the program is unbounded")
        self._pivot(leave, c)

    def _pivot(self, leave: int, c: int) -> None:
        rows, values, scale = self._rows, self._values, self._scale
        pivot_row, pivot_value = rows[leave], values[leave]
        pivot = pivot_row[c]
        entries = [(k, entry) for k, entry in enumerate(pivot_row) if entry and k != c]
        for r, row in enumerate(rows):
            if r == leave:
                continue
            factor = row[c]
            if pivot == scale:  # most entries stay as they are
                if factor:
                    for k, entry in entries:
                        row[k] -= factor * entry // scale
                    values[r] -= factor * pivot_value // scale
                    row[c] = -factor
            elif factor:
                rows[r] = [
                    (entry * pivot - factor * other) // scale for entry, other in zip(row, pivot_row, strict=True)
                ]
                rows[r][c] = -factor
                values[r] = (values[r] * pivot - factor * pivot_value) // scale
            else:
                rows[r] = [entry * pivot // scale for entry in row]
                values[r] = values[r] * pivot // scale
        pivot_row[c] = scale
        self._basic[leave], self._nonbasic[c] = self._nonbasic[c], self._basic[leave]
        self._scale = pivot

    def _keep_optimal_face(self, objective: int) -> Fraction:
        r = self._basic.index(objective)
        costs = self._rows[r]
        risen = Fraction(self._values[r], self._scale)
        self.zero.update(variable for variable, cost in zip(self._nonbasic, costs, strict=True) if cost)
        kept = [c for c, cost in enumerate(costs) if not cost]
        # On the face the objective is a constant: its row has nothing left but zeros and can go.
        del self._rows[r], self._values[r], self._basic[r]
        self._rows = [[row[c] for c in kept] for row in self._rows]
        self._nonbasic = [self._nonbasic[c] for c in kept]
        return risen
