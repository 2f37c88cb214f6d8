"""Checks the cluster's own guarantees from event lines: one chain of primary views, one index per policy switch. Pure.

A node that was cut off may believe for a while that it is still primary, so only lines with an index count.

A policy must be switched at the same index everywhere. This is violated if an index switches to different policies, if
a policy begins at different indices, or if a node skips an index at which others switched. A node that received a state
transfer (because it was outside, joined, or was restarted) may skip the entries in that state. Its log shows the
transfer by a line that the node is outside, or by a policy without an index. Between such lines are *stretches* in
which a node applies entry after entry. A node must have the index of a switch if, by its own line, it was in the view
of that index, and continued: with a later index in that view, or into the next primary view.

Every line with an index, also a capacity line, shows how far a node has come. The line of a view may come a little
after those of its first entries, so within a stretch the indices give the order.

The logs may be incomplete: a file begins with copies of the events in force, and where an original is in none of the
logs (``LogEvent.repeated``), the earlier events of that node are not known. No rule is violated by a missing line.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED, LogEvent, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_NUMBER = re.compile(r"[0-9]+")
FINDINGS_MAX = 20

ONE_PLACE = "a primary view has one index and the same members at every node"
ONE_VIEW = "no index is claimed by two views"
RISING = "ids and indices of primary views rise together"
SHARED = "consecutive primary views share a member"
SWITCHED = "a policy is switched at one index everywhere"
CONFIRMED = "nothing is confirmed outside a primary view"
ONCE = "no request is counted twice"


def judge_cluster(events: Sequence[LogEvent], *, is_all: bool = True) -> list[Verdict]:
    """Verdicts on all cluster guarantees but ``ONCE``, which needs the request lines.

    Without ``is_all`` some event lines are missing: rules for which a missing line would matter are not tested.
    """
    views = [event for event in events if event.kind == "view" and event.primary and event.place is not None]
    switches = [event for event in events if event.kind == "policy" and event.place is not None]
    untold = "no event line has a primary view with an index"
    no_switch = "no event line has a policy with an index"
    judged = [
        _verdict(ONE_PLACE, views, _places(views), untold),
        _verdict(ONE_VIEW, views, _claims(views), untold),
        _verdict(RISING, views, _order(views), untold),
    ]
    if not is_all:
        missing = "not all event lines were read"
        return judged + [
            Verdict("cluster", rule, "", None, NOT_TESTED, missing) for rule in (SHARED, SWITCHED, CONFIRMED)
        ]
    return [
        *judged,
        _verdict(SHARED, views, _shared(views), untold),
        _verdict(SWITCHED, switches, _wrong_switches(events, _chain(views)), no_switch),
        _verdict(CONFIRMED, switches, _unconfirmed(events, switches), no_switch),
    ]


def judge_once(twice: Sequence[tuple[str, Sequence[str]]], count: int, named: int) -> Verdict:
    """Verdict on requests that ended more than once.

    ``twice``: some of them, with decisions and nodes. ``named``: the number of lines that end a request and have its
    rid.
    """
    if not named:
        return Verdict("cluster", ONCE, "", None, NOT_TESTED, "no line that ends a request has a rid")
    if not count:
        return Verdict("cluster", ONCE, "", None, HELD, f"{named} requests, each ended once")
    shown = "; ".join(f"{rid}: {', '.join(said)}" for rid, said in twice[:FINDINGS_MAX])
    return Verdict("cluster", ONCE, "", None, VIOLATED, f"{count} requests ended more than once: {shown}")


def _verdict(rule: str, told: Sequence[LogEvent], findings: Iterable[str], untold: str) -> Verdict:
    if not told:
        return Verdict("cluster", rule, "", None, NOT_TESTED, untold)
    found = list(dict.fromkeys(findings))
    if found:
        more = f"; and {len(found) - FINDINGS_MAX} more" if len(found) > FINDINGS_MAX else ""
        return Verdict("cluster", rule, "", None, VIOLATED, "; ".join(found[:FINDINGS_MAX]) + more)
    nodes = len({event.node for event in told})
    return Verdict("cluster", rule, "", None, HELD, f"checked {len(told)} event lines of {nodes} nodes")


def _places(views: Sequence[LogEvent]) -> Iterable[str]:
    first: dict[str, LogEvent] = {}
    for event in views:
        known = first.setdefault(event.view, event)
        if known.place != event.place:
            yield f"view {event.view} has index {known.place} at {known.node} and {event.place} at {event.node}"
        if set(known.members) != set(event.members):
            yield f"view {event.view} has different members at {known.node} and at {event.node}"


def _claims(views: Sequence[LogEvent]) -> Iterable[str]:
    first: dict[int | None, LogEvent] = {}
    for event in views:
        known = first.setdefault(event.place, event)
        if known.view != event.view:
            yield f"index {event.place} is view {known.view} at {known.node} and view {event.view} at {event.node}"


def _order(views: Sequence[LogEvent]) -> Iterable[str]:
    for before, after in pairwise(_chain(views)):
        if _id(after.view) <= _id(before.view) and before.view != after.view:
            yield f"view {before.view} has index {before.place}, view {after.view} has index {after.place}"


def _shared(views: Sequence[LogEvent]) -> Iterable[str]:
    for before, after in pairwise(_chain(views)):
        if not after.repeated and not set(before.members) & set(after.members):
            yield f"views {before.view} (index {before.place}) and {after.view} (index {after.place}) share no member"


def _chain(views: Sequence[LogEvent]) -> list[LogEvent]:
    """One event for each index, in the order of the indices; a copy only if there is no original."""
    by_place = {event.place: event for event in sorted(views, key=lambda event: not event.repeated)}
    return [by_place[place] for place in sorted(place for place in by_place if place is not None)]


def _id(view: str) -> tuple[int, str]:
    """Sort key of a view id: ``12:ab34`` is epoch 12."""
    number = _NUMBER.match(view)
    return (int(number[0]) if number else -1, view[number.end() :] if number else view)


def _unconfirmed(events: Sequence[LogEvent], switches: Sequence[LogEvent]) -> Iterable[str]:
    """Policies with an index that only nodes outside the primary view know."""
    reporters: dict[tuple[int | None, str], list[LogEvent]] = {}
    for event in switches:
        reporters.setdefault((event.place, event.policy), []).append(event)
    known_from = max(_known_from(events).values(), default=-1)
    for (place, policy), said in reporters.items():
        if (place or 0) >= known_from and all(_is_outside(events, event) for event in said):
            yield f"policy {policy} has index {place} only at {said[0].node}, outside the primary view"


def _known_from(events: Sequence[LogEvent]) -> dict[str, int]:
    """The first index from which on all switches of a node are known, for nodes whose logs are incomplete."""
    found: dict[str, int] = {}
    for event in events:
        if event.kind == "policy" and event.repeated and event.place is not None:
            found[event.node] = max(event.place, found.get(event.node, -1))
    return found


def _is_outside(events: Sequence[LogEvent], at: LogEvent) -> bool:
    before = [event for event in events if event.kind == "view" and event.node == at.node and event.ts < at.ts]
    return bool(before) and not max(before, key=lambda event: event.ts).primary


def _wrong_switches(events: Sequence[LogEvent], chain: Sequence[LogEvent]) -> Iterator[str]:
    """``chain`` has an event of each primary view, by index."""
    switches: dict[int, dict[str, list[str]]] = {}  # nodes by policy, by index
    for event in events:
        if event.kind == "policy" and event.place is not None:
            switches.setdefault(event.place, {}).setdefault(event.policy, []).append(event.node)
    views, known_from = _Views(chain), _known_from(events)
    yield from _to_different_policies(switches)
    yield from _at_different_places(switches, views, known_from)
    of_nodes: dict[str, list[LogEvent]] = {}
    for event in events:
        of_nodes.setdefault(event.writer, []).append(event)
    for node, told in sorted(of_nodes.items()):
        yield from _passed_over(node, told, switches, views, known_from.get(node, -1))


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


def _at_different_places(
    switches: dict[int, dict[str, list[str]]], views: _Views, known_from: Mapping[str, int]
) -> Iterator[str]:
    """Policies that begin at different indices at different nodes.

    No violation if a node has both (the policy was confirmed again, or came back), or if nodes joined or left in
    between.
    """
    places: dict[str, list[int]] = {}
    for place in sorted(switches):
        for policy in switches[place]:
            places.setdefault(policy, []).append(place)
    for policy, of_policy in places.items():
        for before, after in pairwise(of_policy):
            earlier = switches[before][policy]
            later = [node for node in switches[after][policy] if known_from.get(node, -1) <= before]
            if later and not set(earlier) & set(later) and not _came_or_left(views, before, earlier, after, later):
                yield f"policy {policy} begins at index {before} at {earlier[0]} and at {after} at {later[0]}"


def _came_or_left(views: _Views, before: int, earlier: Iterable[str], after: int, later: Iterable[str]) -> bool:
    was, now = views.at(before), views.at(after)
    if now is None or (was is not None and was.place == now.place):
        return False
    return not (was and set(later) & set(was.members)) or not set(earlier) & set(now.members)


def _passed_over(
    node: str,
    told: Sequence[LogEvent],
    switches: dict[int, dict[str, list[str]]],
    views: _Views,
    known_from: int,
) -> Iterator[str]:
    own = {event.place for event in told if event.kind == "policy"}
    owed = sorted(place for place in switches if place not in own and place > known_from)
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
                yield f"index {place} switches to policy {policy} at {nodes[0]}, but {node} skipped it"


def _stretches(told: Sequence[LogEvent]) -> Iterator[list[LogEvent]]:
    """A node's events with an index, cut where the node was outside, or received a policy with the state."""
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
