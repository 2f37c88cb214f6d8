"""Who forms a view with whom, from who hears whom. Pure functions, the same answer for all who know the same rows.

Paper: none; Khazan's thesis leaves this to the membership service. GROUP.md, "Membership".
Two processes are neighbours when each hears the other. A view is a clique: everybody in it is everybody's neighbour, so
where hearing is not transitive there are smaller views instead of none.

The cliques are grown greedily. The next member is always one that fewest accuse (y accuses x when x hears y and y does
not hear x any more: so that the first who notices a crash speaks for all), then one with most neighbours among those
that could still join, then the lowest. Ties are broken by names only, so all who know the rows agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.names import ProcessId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cluster.messages import Row

Neighbours = dict[ProcessId, set[ProcessId]]


def within_hearing(me: ProcessId, rows: Mapping[ProcessId, Row]) -> list[ProcessId]:
    """Me, whom I hear, whom those hear, and so on; sorted. Only these matter: the other rows may be of the dead."""
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


def is_whole(members: Collection[ProcessId], rows: Mapping[ProcessId, Row]) -> bool:
    """Each of these hears all of them."""
    return all(member in rows and set(rows[member].hears).issuperset(members) for member in members)


def clique_of(me: ProcessId, rows: Mapping[ProcessId, Row]) -> tuple[ProcessId, ...]:
    """The members of the view that `me` should be in."""
    processes = [process for process in within_hearing(me, rows) if process in rows]
    hears = {process: set(rows[process].hears) for process in processes}
    neighbours = {
        x: {y for y in processes if y != x and y in hears[x] and x in hears[y]} for x in processes
    }  # by membership only, never by the order of a set
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
