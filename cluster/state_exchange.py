"""Start of a primary view: merges the state summaries of its members into one log. Pure.

Paper: De Prisco et al., PODC 1998, section 6.1, the functions on gotstate of fig. 5 (reps, chosenrep, shortorder,
fullorder, maxnextconfirm).
Departs: summaries leave out the confirmed past (`messages.Summary`), so the exchange also determines which member lacks
which part of it and which member supplies it. Labels that the representative's history has passed are dropped. All
members end the order with the entry for the new view.

Why a label that is not greater than `highest[origin]` has been ordered, or is lost for good: an origin labels only in
an established view. Its summary for that view carried all its older labels, so these were ordered before any newer one.
An older label can be missing from an order with a newer one only if its origin forgot it, that is, lost what it had
written. Then no process confirmed it, and all members drop it here alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.entries import VIEW, Entry
from cluster.names import NOBODY, Label, ProcessId, View, ViewId

if TYPE_CHECKING:
    from cluster.messages import Summary

NO_PRIMARY = ViewId(-1, "")  # below every view

_encode = msgspec.msgpack.Encoder().encode
_decode_view = msgspec.msgpack.Decoder(View).decode


class ExchangeResult(msgspec.Struct, frozen=True):
    """The result of the exchange: every member computes it from the summaries of all members of the view."""

    representative: ProcessId  # chosenrep
    position: int  # start of `order`; everything below is confirmed, and the representative has it
    order: tuple[tuple[Label, Entry], ...]  # fullorder from there on
    next_confirm: int  # maxnextconfirm
    highest: dict[ProcessId, Label]  # over the whole of fullorder
    lacking: tuple[tuple[ProcessId, int], ...]  # members that lack confirmed entries, and from which position on


def view_entry(view: View) -> tuple[Label, Entry]:
    """The entry that tells all replicas of a new primary view, at the same position."""
    return Label(view.id, 0, NOBODY), Entry(VIEW, _encode(view))


def view_of_entry(entry: Entry) -> View:
    return _decode_view(entry.body)


def combine_summaries(view: View, gotstate: dict[ProcessId, Summary]) -> ExchangeResult:
    """The order with which the members of `view` continue. A function of the summaries alone."""
    high = max(_high(summary) for summary in gotstate.values())
    representative = min(
        (member for member in gotstate if _high(gotstate[member]) == high),
        key=lambda member: (-_length(gotstate[member]), member),
    )
    chosen = gotstate[representative]
    highest = {label.origin: label for label in chosen.highest}
    shortorder = chosen.tail
    known = {label: entry for summary in gotstate.values() for label, entry in (*summary.tail, *summary.loose)}
    rest = tuple(
        (label, known[label])
        for label in sorted(known)
        if label.origin != NOBODY and (label.origin not in highest or label > highest[label.origin])
    )
    for label, _ in rest:
        highest[label.origin] = label
    lacking = tuple(
        (member, gotstate[member].next_confirm)
        for member in sorted(gotstate)
        if _high(gotstate[member]) != high and gotstate[member].next_confirm < chosen.next_confirm
    )
    return ExchangeResult(
        representative,
        chosen.next_confirm,
        (*shortorder, *rest, view_entry(view)),
        max(summary.next_confirm for summary in gotstate.values()),
        highest,
        lacking,
    )


def _high(summary: Summary) -> ViewId:
    return summary.high_primary if summary.high_primary is not None else NO_PRIMARY


def _length(summary: Summary) -> int:
    return summary.next_confirm + len(summary.tail)
