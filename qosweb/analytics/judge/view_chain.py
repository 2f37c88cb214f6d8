"""What the cluster itself promised, from the event lines: one chain of primary views, one place for each policy. Pure.

A node that was cut off may believe for a while that it is still primary; only what is said of the order counts.
Neighbours: ``policy_switches`` knows what a switch at one index is.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from qosweb.analytics.judge.policy_switches import wrong_switches
from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED, LogEvent, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    """Verdicts on all of them but ``ONCE``, which needs the request lines.

    Without ``is_all`` some event lines are not there: what follows from one that is missing is not tested then.
    """
    views = [event for event in events if event.kind == "view" and event.primary and event.place is not None]
    switches = [event for event in events if event.kind == "policy" and event.place is not None]
    untold = "no event line tells of a primary view with its index"
    no_switch = "no event line tells of a policy with its index"
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
        _verdict(SWITCHED, switches, wrong_switches(events, _chain(views)), no_switch),
        _verdict(CONFIRMED, switches, _unconfirmed(events, switches), no_switch),
    ]


def judge_once(twice: Sequence[tuple[str, Sequence[str]]], count: int, named: int) -> Verdict:
    """``twice``: some requests that ended more than once, with what the lines say of each. ``named``: how many lines
    with which a request ends have its name."""
    if not named:
        return Verdict("cluster", ONCE, "", None, NOT_TESTED, "no line with which a request ends has a rid")
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
    kinds = len({event.view or event.policy for event in told})
    return Verdict("cluster", rule, "", None, HELD, f"{kinds} at {nodes} nodes, {len(told)} event lines")


def _places(views: Sequence[LogEvent]) -> Iterable[str]:
    first: dict[str, LogEvent] = {}
    for event in views:
        known = first.setdefault(event.view, event)
        if known.place != event.place:
            yield f"view {event.view} has index {known.place} at {known.node} and {event.place} at {event.node}"
        if set(known.members) != set(event.members):
            yield f"view {event.view} has other members at {known.node} than at {event.node}"


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
        if not set(before.members) & set(after.members):
            yield f"views {before.view} (index {before.place}) and {after.view} (index {after.place}) share no member"


def _chain(views: Sequence[LogEvent]) -> list[LogEvent]:
    """One event for each index, in the order of these."""
    by_place = {event.place: event for event in reversed(views)}
    return [by_place[place] for place in sorted(place for place in by_place if place is not None)]


def _id(view: str) -> tuple[int, str]:
    """``12:ab34`` is epoch 12."""
    number = _NUMBER.match(view)
    return (int(number[0]) if number else -1, view[number.end() :] if number else view)


def _unconfirmed(events: Sequence[LogEvent], switches: Sequence[LogEvent]) -> Iterable[str]:
    """Policies with a place in the order that only nodes outside the primary view know of."""
    reporters: dict[tuple[int | None, str], list[LogEvent]] = {}
    for event in switches:
        reporters.setdefault((event.place, event.policy), []).append(event)
    for (place, policy), said in reporters.items():
        if all(_is_outside(events, event) for event in said):
            yield f"policy {policy} has index {place} only at {said[0].node}, outside the primary view"


def _is_outside(events: Sequence[LogEvent], at: LogEvent) -> bool:
    before = [event for event in events if event.kind == "view" and event.node == at.node and event.ts < at.ts]
    return bool(before) and not max(before, key=lambda event: event.ts).primary
