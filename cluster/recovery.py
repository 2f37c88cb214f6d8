"""Operator recovery after the loss of a majority: computes what to write on the remaining disks.

A primary view needs a quorum of every view that may have decided before it. When a quorum of such a view is lost for
good, there can be no primary view any more: the remaining processes cannot know that the others are gone, and must not
assume it. An operator can know. This module computes the new contents of their disks.

One of the disks leads: the one whose order the state exchange would have chosen. It gets a view of one, w, with itself
as the only member, as the last primary view, registered: act = w, amb is empty. Its order becomes that of w as in every
new primary view (`state_exchange.combine_summaries`, of one summary). The other disks get the same act. So the next
primary view contains the leader, and the others follow it and contribute the entries they have.

What holds afterwards, with `use` = {w} on all these disks:
- No view without the leader is primary among these processes and processes that join them, until a primary view with
  the leader has been registered: w has no other quorum.
- Everything on the leader's disk is in every later order. So is every confirmed entry that is on any of these disks: it
  was in the order of all processes that established the latest of their primary views.
- w comes a million epochs after all epochs that these disks know. Abandoned processes that meet this group without a
  quorum of their last view have an older act and yield to this one.
What does not hold: nothing here reaches the abandoned processes. If a quorum of their last view comes back, it
continues as if nothing had happened, and its order would conflict with that of this group. That is why a recovered
group has another cluster id: the two groups can differ, but never mix.

Paper: none. It breaks the assumption of VS-TO-DVS that `act` changes by registration alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.durable import Epoch, Primaries, Rebuilt, Record
from cluster.messages import Summary
from cluster.names import ProcessId, View, make_view
from cluster.primary import is_quorum
from cluster.run_log import runs_of
from cluster.state_exchange import NO_PRIMARY, combine_summaries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.durable import Image

EPOCH_LEAP = 1_000_000


class CannotRecover(Exception):
    """Recovery is not necessary, or the disks have no order to recover from."""


class RecoveryPlan(msgspec.Struct, frozen=True):
    leader: ProcessId
    view: View  # w
    given_up: tuple[ProcessId, ...]  # members of views in use whose disks were not given
    position: int  # end of the leader's order
    confirmed: int  # how much of it the leader's disk knows to be confirmed
    records: tuple[Record, ...]  # for the leader's disk


def plan_recovery(images: Mapping[ProcessId, Image]) -> RecoveryPlan:
    """Chooses the leader and computes the records to write on the disks. Raises CannotRecover."""
    used = _views_in_use(images)
    if not used:
        raise CannotRecover(
            "none of these disks knows a primary view, so there is no order to continue from. "
            "Found a new group, or use the disk of a process that was a member."
        )
    if all(is_quorum(images, view) for view in used):
        raise CannotRecover(
            f"these disks are a quorum of every view that may decide ({', '.join(map(str, used))}). "
            "No recovery is needed: start their nodes, and they form a primary view by themselves."
        )
    leader = max(images, key=lambda process: (images[process].high_primary or NO_PRIMARY, images[process].log.end))
    image = images[leader]
    if image.high_primary is None:
        raise CannotRecover(
            "none of these processes was ever in a primary view, so none of the disks has the order of the group. "
            "Found a new group, or use the disk of a process that was a member."
        )
    epochs = [epoch for each in images.values() for epoch in _epochs(each)]
    epoch = max(epochs) + EPOCH_LEAP
    view = make_view(epoch, {leader: epoch})
    summary = _summary(image)
    outcome = combine_summaries(view, {leader: summary})
    given_up = {member for each in used for member in each.members} - set(images)
    rebuilt = Rebuilt(outcome.position, tuple(runs_of(outcome.order)), view.id, outcome.next_confirm, None)
    return RecoveryPlan(
        leader,
        view,
        tuple(sorted(given_up)),
        image.log.end,
        summary.next_confirm,
        (*follower_records(view), rebuilt),
    )


def follower_records(view: View) -> tuple[Record, ...]:
    """Records for the disk of every process that continues: w is the last primary view."""
    return (Epoch(view.id.epoch), Primaries(view, ()))


def _views_in_use(images: Mapping[ProcessId, Image]) -> list[View]:
    """act and amb, as the infos of these processes would have set them."""
    acts = {image.act.id: image.act for image in images.values() if image.act is not None}
    if not acts:
        return []
    act = acts[max(acts)]
    later = {view.id: view for image in images.values() for view in image.amb if view.id > act.id}
    return [act, *(later[view_id] for view_id in sorted(later))]


def _epochs(image: Image) -> list[int]:
    views = [view.id for view in (image.act, *image.amb) if view is not None]
    return [image.epoch, *(view_id.epoch for view_id in (*views, image.high_primary) if view_id is not None)]


def _summary(image: Image) -> Summary:
    """The summary that the process would send in a state exchange."""
    snapshot = image.snapshot
    reported = snapshot.position if snapshot is not None else 0
    highest = {label.origin: label for label in (snapshot.highest if snapshot is not None else ())}
    for label, _ in image.log.since(reported):
        highest[label.origin] = label
    next_confirm = max(image.next_confirm, reported)
    return Summary(
        image.log.base,
        next_confirm,
        tuple(image.log.since(next_confirm)),
        tuple(pair for first in sorted(image.labelled) for pair in image.labelled[first].labelled()),
        image.high_primary,
        tuple(highest[origin] for origin in sorted(highest)),
    )
