"""Chooses the members of the next view: groups in which every process hears every other. Pure.

All processes that know the same rows get the same result.
Paper: none; Khazan's thesis leaves this to the membership service.
Two processes are neighbours when each hears the other. A view is a clique: all its members are neighbours of each
other. So where hearing is not transitive, there are smaller views instead of none.

The cliques are grown greedily. The next member is one with the fewest accusers (y accuses x when x hears y and y no
longer hears x, so that the first process that notices a crash decides for all). Among those it is one with the most
neighbours among the processes that could still join, then the lowest. Ties are broken by names only, so all processes
that know the rows agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.names import ProcessId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cluster.messages import Row

Neighbours = dict[ProcessId, set[ProcessId]]


def within_hearing(me: ProcessId, rows: Mapping[ProcessId, Row]) -> list[ProcessId]:
    """The processes transitively heard by `me`, sorted. Other rows may belong to dead processes and are ignored."""
    found = {me}
    frontier = [me]
    while frontier:
        row = rows.get(frontier.pop())
        if row is not None:
            for process in row.hears:
                if process not in found:
                    found.add(process)
                    frontier.append(process)
    return sorted(found)


def is_clique(members: Collection[ProcessId], rows: Mapping[ProcessId, Row]) -> bool:
    """Whether each of these members hears all of them."""
    return all(member in rows and set(rows[member].hears).issuperset(members) for member in members)


def clique_of(me: ProcessId, rows: Mapping[ProcessId, Row]) -> tuple[ProcessId, ...]:
    """The members of the view that `me` should be in."""
    processes = [process for process in within_hearing(me, rows) if process in rows]
    hears = {process: set(rows[process].hears) for process in processes}
    neighbours = {
        x: {y for y in processes if y != x and y in hears[x] and x in hears[y]} for x in processes
    }  # used for membership tests only, never iterated
    accused = {x: sum(1 for y in processes if y in hears[x] and x not in hears[y]) for x in processes}
    left = processes
    while True:
        clique = _grow(left, neighbours, accused)
        if me in clique or not clique:
            return tuple(sorted(clique)) or (me,)
        left = [process for process in left if process not in clique]


def _grow(left: list[ProcessId], neighbours: Neighbours, accused: Mapping[ProcessId, int]) -> set[ProcessId]:
    clique: set[ProcessId] = set()
    candidates = left
    while candidates:
        inside = set(candidates)
        best = min(candidates, key=lambda x: (accused[x], -len(neighbours[x] & inside), x))
        clique.add(best)
        candidates = [process for process in candidates if process in neighbours[best]]
    return clique
