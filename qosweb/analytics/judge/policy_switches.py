"""Whether policies were switched at one index everywhere, from the event lines. Pure.

It is broken if an index switches to different policies, if a policy begins at different indices, or if a node passes
over an index at which others switched. Who got the state instead of the entries may pass over what is in that state: a
node that was outside, that joined, that was started again. It says so: a line that it is outside, or one of a policy
without an index, which is how a policy looks that came with the state. Between such lines are *stretches* in which a
node takes entry after entry. It owes the index of a switch if it was in the view to which that index belongs, as its
own line says, and went on: with a line of a later index in that view, or into the primary view that comes next.

All lines with an index tell how far a node is, those of capacities, too; a view's own line may come a little after
those of entries in it, so within a stretch the indices give the order.
Neighbours: ``view_chain`` judges.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from qosweb.analytics.read.rows import LogEvent


def wrong_switches(events: Sequence[LogEvent], chain: Sequence[LogEvent]) -> Iterator[str]:
    """``view_chain`` has an event of each primary view, by index."""
    switches: dict[int, dict[str, list[str]]] = {}  # nodes by policy, by index
    for event in events:
        if event.kind == "policy" and event.place is not None:
            switches.setdefault(event.place, {}).setdefault(event.policy, []).append(event.node)
    views = _Views(chain)
    yield from _to_different_policies(switches)
    yield from _at_different_places(switches, views)
    of_nodes: dict[str, list[LogEvent]] = {}
    for event in events:
        of_nodes.setdefault(event.writer, []).append(event)
    for node, told in sorted(of_nodes.items()):
        yield from _passed_over(node, told, switches, views)


class _Views:
    def __init__(self, chain: Sequence[LogEvent]) -> None:
        self._chain = chain
        self._places = [event.place for event in chain if event.place is not None]

    def at(self, place: int) -> LogEvent | None:
        """The view to which this index belongs."""
        number = bisect_right(self._places, place)
        return self._chain[number - 1] if number else None

    def after(self, place: int) -> LogEvent | None:
        number = bisect_right(self._places, place)
        return self._chain[number] if number < len(self._chain) else None


def _to_different_policies(switches: dict[int, dict[str, list[str]]]) -> Iterator[str]:
    for place, policies in switches.items():
        if len(policies) > 1:
            said = ", ".join(f"{policy} at {nodes[0]}" for policy, nodes in sorted(policies.items()))
            yield f"index {place} switches to different policies: {said}"


def _at_different_places(switches: dict[int, dict[str, list[str]]], views: _Views) -> Iterator[str]:
    """A node that saw both has seen a policy confirmed once more, or come back; and so has who came, or left."""
    places: dict[str, list[int]] = {}
    for place in sorted(switches):
        for policy in switches[place]:
            places.setdefault(policy, []).append(place)
    for policy, of_policy in places.items():
        for before, after in pairwise(of_policy):
            earlier, later = switches[before][policy], switches[after][policy]
            if not set(earlier) & set(later) and not _came_or_left(views, before, earlier, after, later):
                yield f"policy {policy} begins at index {before} at {earlier[0]} and at {after} at {later[0]}"


def _came_or_left(views: _Views, before: int, earlier: Iterable[str], after: int, later: Iterable[str]) -> bool:
    was, now = views.at(before), views.at(after)
    if now is None or (was is not None and was.place == now.place):
        return False
    return not (was and set(later) & set(was.members)) or not set(earlier) & set(now.members)


def _passed_over(
    node: str, told: Sequence[LogEvent], switches: dict[int, dict[str, list[str]]], views: _Views
) -> Iterator[str]:
    own = {event.place for event in told if event.kind == "policy"}
    owed = sorted(place for place in switches if place not in own)
    for stretch in _stretches(told):
        places = sorted(event.place for event in stretch if event.place is not None)
        entered = {event.view for event in stretch if event.kind == "view"}
        for place in owed[bisect_right(owed, places[0]) : bisect_left(owed, places[-1])]:
            view, following = views.at(place), views.after(place)
            if view is not None and (view.view not in entered or node not in view.members):
                continue
            further = places[bisect_right(places, place)]
            stays = following is None or following.place is None or further < following.place
            if stays or (view is not None and following is not None and following.view in entered):
                policy, nodes = next(iter(switches[place].items()))
                yield f"index {place} switches to policy {policy} at {nodes[0]}, and {node} passed over it"


def _stretches(told: Sequence[LogEvent]) -> Iterator[list[LogEvent]]:
    """What a node says with an index, cut where it says that it is outside, or that a policy came with the state."""
    stretch: list[LogEvent] = []
    for event in sorted(told, key=lambda one: (one.ts, one.place is not None)):
        if event.kind == "view" and not event.primary:
            cuts = True
        else:
            cuts = event.place is None and event.kind in ("view", "policy")
        if cuts and stretch:
            yield stretch
            stretch = []
        elif not cuts and event.place is not None:
            stretch.append(event)
    if stretch:
        yield stretch
