"""The thesis' guarantees as direct checks of a whole trace, for tests of the end-point and below.

These are not the specification automata, which check step by step. Each property is stated on its own, as directly as
possible, so that the two are independent of each other.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from cluster.actions import (
    Action,
    Crashed,
    GcsDeliver,
    GcsSend,
    GcsView,
    LinkDeliver,
    LinkReliable,
    LinkSend,
    MembershipView,
    StartChange,
)
from cluster.names import ProcessId, View, ViewId, initial_view

if TYPE_CHECKING:
    from cluster.messages import Ordered, Payload

Trace = list[tuple[ProcessId, Action]]
Life = tuple[ProcessId, int]


class Stay:
    """One life's time in one view: the messages it sent and delivered there, and how it left."""

    def __init__(self, life: Life, view: View) -> None:
        self.life, self.view = life, view
        self.sent: list[Ordered] = []
        self.delivered: dict[ProcessId, list[Ordered]] = defaultdict(list)
        self.next: View | None = None
        self.transitional: tuple[ProcessId, ...] = ()


def stays(trace: Trace) -> list[Stay]:
    lives: dict[ProcessId, int] = defaultdict(int)
    now: dict[ProcessId, Stay] = {}
    found: list[Stay] = []
    for process, action in trace:
        if process not in now:
            now[process] = Stay((process, lives[process]), initial_view(process))
            found.append(now[process])
        stay = now[process]
        if isinstance(action, GcsSend):
            stay.sent.append(action.body)
        elif isinstance(action, GcsDeliver):
            stay.delivered[action.sender].append(action.body)
        elif isinstance(action, GcsView):
            stay.next, stay.transitional = action.view, action.transitional
            now[process] = Stay(stay.life, action.view)
            found.append(now[process])
        elif isinstance(action, Crashed):
            lives[process] += 1
            del now[process]
    return found


def judge(trace: Trace) -> None:
    within_view_fifo(trace)
    virtual_synchrony(trace)
    transitional_sets(trace)
    self_delivery(trace)
    membership(trace)
    links(trace)


def within_view_fifo(trace: Trace) -> None:
    """The messages delivered in a view from a sender are a prefix of those sent there; views grow and include me."""
    sent: dict[tuple[ProcessId, ViewId], list[Ordered]] = defaultdict(list)
    everything = stays(trace)
    for stay in everything:
        if stay.view.id.epoch > 0:
            sent[stay.life[0], stay.view.id] = stay.sent
    for stay in everything:
        assert stay.life[0] in stay.view.members
        if stay.next is not None:
            assert stay.next.id > stay.view.id
        for sender, bodies in stay.delivered.items():
            assert sender in stay.view.members
            of_sender = stay.sent if sender == stay.life[0] else sent[sender, stay.view.id]
            assert of_sender[: len(bodies)] == bodies, (stay.life, stay.view, sender)


def virtual_synchrony(trace: Trace) -> None:
    """Members that move from one view to the same next view delivered the same messages in the first."""
    cuts: dict[tuple[ViewId, ViewId], dict[ProcessId, int]] = {}
    for stay in stays(trace):
        if stay.next is not None:
            cut = {member: len(stay.delivered[member]) for member in stay.view.members}
            agreed = cuts.setdefault((stay.view.id, stay.next.id), cut)
            assert cut == agreed, (stay.life, stay.view, stay.next)


def transitional_sets(trace: Trace) -> None:
    """T is a subset of both views. It contains all members that move along, and no member from another view."""
    came_from: dict[tuple[ProcessId, ViewId], ViewId] = {}
    moves = [stay for stay in stays(trace) if stay.next is not None]
    for stay in moves:
        assert stay.next is not None
        came_from[stay.life[0], stay.next.id] = stay.view.id
    for stay in moves:
        assert stay.next is not None
        assert set(stay.transitional) <= set(stay.view.members) & set(stay.next.members)
        for member in set(stay.view.members) & set(stay.next.members):
            origin = came_from.get((member, stay.next.id))
            if origin is not None:
                assert (member in stay.transitional) == (origin == stay.view.id), (stay.life, stay.next, member)


def self_delivery(trace: Trace) -> None:
    for stay in stays(trace):
        if stay.next is not None:
            assert stay.delivered[stay.life[0]] == stay.sent, stay.life


def membership(trace: Trace) -> None:
    """Fig. 4.2; and one view per id, no two views of one epoch that overlap."""
    views: dict[ProcessId, View] = {}
    changes: dict[ProcessId, tuple[int, tuple[ProcessId, ...]]] = {}
    ids: dict[int, dict[ViewId, View]] = defaultdict(dict)
    for process, action in trace:
        view = views.setdefault(process, initial_view(process))
        cid, members = changes.setdefault(process, (0, ()))
        if isinstance(action, StartChange):
            assert action.cid > view.start_id(process)
            assert action.cid >= cid
            assert process in action.members
            changes[process] = (action.cid, action.members)
        elif isinstance(action, MembershipView):
            assert process in action.view.members
            assert action.view.id > view.id
            assert set(action.view.members) <= set(members)
            assert action.view.start_id(process) == cid > view.start_id(process)
            views[process] = action.view
            ids[action.view.id.epoch][action.view.id] = action.view
        elif isinstance(action, Crashed):
            views[process] = initial_view(process)  # start-change ids keep increasing over a crash
    for same_epoch in ids.values():
        members = tuple(member for view in same_epoch.values() for member in view.members)
        assert len(members) == len(set(members))


def links(trace: Trace) -> None:
    """Fig. 4.4: in order, nothing twice. Missing messages were lost at the end of a stream.

    They were sent before the receiver left the reliable set, or to a life of it that ended.
    """
    # channel[p, q]: (message, number of the stretch it belongs to); a stretch may lose its end once it is closed
    channel: dict[tuple[ProcessId, ProcessId], list[tuple[Payload, int]]] = defaultdict(list)
    stretch: dict[tuple[ProcessId, ProcessId], int] = defaultdict(int)
    shaky: set[tuple[ProcessId, ProcessId]] = set()
    reliable: dict[ProcessId, tuple[ProcessId, ...]] = {}
    for process, action in trace:
        if isinstance(action, LinkSend):
            for peer in action.to:
                pair = (process, peer)
                if peer not in reliable.get(process, ()) or pair in shaky:
                    stretch[pair] += 1
                channel[pair].append((action.body, stretch[pair]))
        elif isinstance(action, LinkReliable):
            for peer in reliable.get(process, ()):
                if peer not in action.members:
                    stretch[process, peer] += 1
            reliable[process] = action.members
        elif isinstance(action, LinkDeliver):
            pair = (action.sender, process)
            queue = channel[pair]
            at = next((i for i, (body, _) in enumerate(queue) if body is action.body), None)
            assert at is not None, (pair, action)
            assert all(number < queue[at][1] for _, number in queue[:at]), (pair, action)
            del queue[: at + 1]
            shaky.discard(pair)
        elif isinstance(action, Crashed):
            reliable.pop(process, None)
            for pair in list(channel):
                if process in pair:
                    stretch[pair] += 1
                if pair[1] == process:
                    channel[pair].clear()
                    shaky.add(pair)
