"""Exact simplex method for a sequence of objectives, each solved on the optimal face of those before. Pure.

Paper: Bland, "New finite pivoting rules for the simplex method", 1977 (the rule that cannot cycle). It is used only
after many pivots: the column with the most negative cost usually needs far fewer of them, but may cycle.

The program is  A x + s = b,  x >= 0,  s >= 0,  in integers with b >= 0: the origin is a solution, so there is no first
phase. Variables are numbers: the columns of A first, then one slack for each row, then the objectives in the order in
which they are added. The row of a basic variable v reads

    scale * v + sum(entry * variable for variable, entry in entries) = value

in integers without a common divisor, so nothing is ever rounded. Rows store no zeros: where rules have few classes in
common, a pivot touches few rows and few of their entries.

An objective is a variable that is a sum of columns: it stands for raising several variables together. Its own row,
once it is basic, holds its reduced costs. When none is negative any more, the columns with positive costs are zero at
every optimum, and dropping them leaves exactly the optimal face.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STEEPEST_MAX = 200  # pivots per objective


class _Row:
    __slots__ = ("basic", "entries", "scale", "value")

    def __init__(self, basic: int, entries: dict[int, int], value: int) -> None:
        self.basic = basic
        self.scale = 1
        self.entries = entries
        self.value = value


class Program:
    """A linear program in the middle of being solved."""

    def __init__(self, columns: int, rows: Sequence[Mapping[int, int]], limits: Sequence[int]) -> None:
        """A row maps columns to entries."""
        self._rows = [
            _Row(columns + r, {column: entry for column, entry in row.items() if entry}, limit)
            for r, (row, limit) in enumerate(zip(rows, limits, strict=True))
        ]
        self._next = columns + len(rows)
        self.zero: set[int] = set()

    def raise_together(self, parts: Sequence[tuple[int, int]]) -> Fraction:
        """Raises all (variable, weight) together as far as possible, keeps them there, and returns the amount.

        The amount is no longer counted in the variables' own values. Variables that cannot rise further are in ``zero``
        from now on, at least one of ``parts`` among them, and cannot be raised again.
        """
        objective = self._next
        self._next += 1
        self._add_column(objective, dict(parts))
        row = self._enter(objective)
        pivots = 0
        while improving := [(cost, variable) for variable, cost in row.entries.items() if cost < 0]:
            pivots += 1
            self._enter(min(improving)[1] if pivots < STEEPEST_MAX else min(variable for _, variable in improving))
        return self._keep_optimal_face(row)

    def _add_column(self, objective: int, weights: dict[int, int]) -> None:
        for row in self._rows:
            entry = row.scale * weights.get(row.basic, 0)
            for variable, other in row.entries.items():
                if variable in weights:
                    entry += other * weights[variable]
            if entry:
                row.entries[objective] = entry

    def _enter(self, variable: int) -> _Row:
        """Makes a variable basic, in place of the one that reaches zero first; returns its row."""
        leave: _Row | None = None
        others: list[_Row] = []
        best = least = 0
        for row in self._rows:
            entry = row.entries.get(variable, 0)
            if not entry:
                continue
            others.append(row)
            if entry < 0:
                continue
            if leave is not None:
                ours, theirs = row.value * least, best * entry
                if ours > theirs or (ours == theirs and row.basic > leave.basic):
                    continue
            leave, best, least = row, row.value, entry
        if leave is None:
            raise ValueError("the program is unbounded")
        pivot = leave.entries.pop(variable)
        leave.entries[leave.basic] = leave.scale
        leave.basic, leave.scale = variable, pivot
        for row in others:
            if row is not leave:
                _eliminate(row, variable, leave)
        return leave

    def _keep_optimal_face(self, objective: _Row) -> Fraction:
        costs = objective.entries
        self.zero.update(costs)
        # On the face the objective is a constant: its row has nothing left but zeros and can go.
        self._rows.remove(objective)
        for row in self._rows:
            if len(costs) < len(row.entries):
                for variable in costs:
                    row.entries.pop(variable, None)
            else:
                row.entries = {variable: entry for variable, entry in row.entries.items() if variable not in costs}
        return Fraction(objective.value, objective.scale)


def _eliminate(row: _Row, variable: int, by: _Row) -> None:
    """Removes a variable from a row by means of the row in which it is basic."""
    entries, scale = row.entries, by.scale
    factor = entries.pop(variable)
    divisor = gcd(factor, scale)
    factor, scale = factor // divisor, scale // divisor
    if scale != 1:
        for other in entries:
            entries[other] *= scale
        row.scale *= scale
        row.value *= scale
    for other, entry in by.entries.items():
        changed = entries.get(other, 0) - factor * entry
        if changed:
            entries[other] = changed
        else:
            del entries[other]
    row.value -= factor * by.value
    divisor = gcd(row.scale, row.value, *entries.values())
    if divisor != 1:
        row.scale //= divisor
        row.value //= divisor
        for other in entries:
            entries[other] //= divisor
