"""What travels between processes, seam by seam, in the papers' words.

A frame is what a connection carries. A payload is what the reliable FIFO links carry inside `Data`. An ordered message
is what the virtual synchrony layer multicasts for the view order. Each is a closed union, so that a decoder accepts
these types and no others. (`final`: where the type of a message is compared, a type checker knows the rest.)
"""

from __future__ import annotations

from typing import final

import msgspec

from cluster.entries import Entry, Pack
from cluster.names import Label, ProcessId, View, ViewId
from cluster.run_log import Run


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of everything that travels. Equal when equal in all fields. (`gc`: a tree of values is in no cycle.)

    The tag names the type on the wire, so it never changes; the class may be renamed.
    """


# ---- client messages of the primary views layer (M_c): the total order


@final
class Batch(Message, frozen=True, tag="Batch"):
    """<l, a> for a run of labels: seqno, seqno + 1, ... of the sender in its current view."""

    seqno: int
    pack: Pack


@final
class Summary(Message, frozen=True, tag="Summary"):
    """x = <con, ord, next, high> of fig. 5, less what can be spared.

    Positions count from 0 over the whole history. What lies below `next_confirm` is confirmed and so the same for all:
    it is not repeated. `tail` is the order from there on, with bodies; `loose` is the content that no order has yet.
    `base`: from which position on the sender has entries (below, only its snapshot). `highest`: the greatest ordered
    label of each origin, over the whole history.
    """

    base: int
    next_confirm: int
    tail: tuple[tuple[Label, Entry], ...]
    loose: tuple[tuple[Label, Entry], ...]
    high_primary: ViewId | None
    highest: tuple[Label, ...]


# ---- messages of the view order's clients (M): the primary views


@final
class Info(Message, frozen=True, tag="Info"):
    """<"info", act, amb>. `act` is None for a process that knows of no primary view."""

    act: View | None
    amb: tuple[View, ...]


@final
class Registered(Message, frozen=True, tag="Registered"):
    """<"registered">"""


ClientMessage = Batch | Summary
ViewMessage = Info | Registered | Batch | Summary


# ---- ordered messages: what the view order multicasts through the virtual synchrony layer. All of them take along how
# much of the view's order the sender has dealt with (`ack`), and how much of it everybody has (`safe`).


class Slot(Message, frozen=True, tag="Slot"):
    """ATOP: what the sender does with its next `count` slots: the first is for `body`, if any, the others are given up.

    Without a body it is a null message; one of no slots says only that the sender has moved on to the distribution.
    The first message that a process sends under a distribution bears its weights (in member order).
    """

    dist_id: int
    seqno: int
    count: int
    weights: tuple[int, ...] | None
    ack: int
    body: ViewMessage | None
    safe: int = 0


class Plain(Message, frozen=True, tag="Plain"):
    """Fixed sequencer: a message that the sequencer has yet to place."""

    ack: int
    body: ViewMessage
    safe: int = 0


class Sequence(Message, frozen=True, tag="Sequence"):
    """Fixed sequencer: the next places of the order go to one message each of these members (by rank)."""

    ack: int
    senders: tuple[int, ...]
    safe: int = 0


Ordered = Slot | Plain | Sequence


# ---- payloads: what the reliable FIFO links (CO_RFIFO) carry


class ViewMsg(Message, frozen=True, tag="ViewMsg"):
    """<'view_msg', v>: what I send from here on, I send in v."""

    view: View


class AppMsg(Message, frozen=True, tag="AppMsg"):
    """<'app_msg', m>"""

    body: Ordered


class FwdMsg(Message, frozen=True, tag="FwdMsg"):
    """<'fwd_msg', r, v, m, i>: the i-th message of r in v (from 1), for one who misses it."""

    origin: ProcessId
    view_id: ViewId
    body: Ordered
    index: int


class SyncMsg(Message, frozen=True, tag="SyncMsg"):
    """<'sync_msg', cid, v, cut>: the cut in member order of v."""

    cid: int
    view_id: ViewId
    cut: tuple[int, ...]


class Ack(Message, frozen=True, tag="Ack"):
    """The first `count` messages of the view's order are with me, and what they brought is on my disk.

    Of the first `safe` of them I know that this holds for every member.
    """

    view_id: ViewId
    count: int
    safe: int = 0


class Supply(Message, frozen=True, tag="Supply"):
    """What a member of a new primary view lacks of the confirmed past, from the chosen representative.

    One piece of a series: pieces 0 .. `pieces` - 1. A snapshot, cut into pieces, comes first where there is one
    (`snapshot_at` >= 0, the position it covers), then entries at `position`, `position` + 1, ..., in the runs in which
    they travelled before.
    """

    view_id: ViewId
    piece: int
    pieces: int
    snapshot_at: int
    snapshot: bytes
    position: int
    runs: tuple[Run, ...]
    digest: str = ""  # of the whole snapshot


class Resume(Message, frozen=True, tag="Resume"):
    """I have the snapshot that you began to supply, up to this piece: go on from there."""

    view_id: ViewId
    piece: int


Payload = ViewMsg | AppMsg | FwdMsg | SyncMsg | Ack | Supply | Resume


# ---- frames: what one connection carries


class Hello(Message, frozen=True, tag="Hello"):
    """First on a new connection: which life of me this is, and how far I have your stream (0, 0: nothing of it)."""

    boot: int
    your_boot: int
    stream: int
    seqno: int


class Data(Message, frozen=True, tag="Data"):
    """The `seqno`-th payload (from 1) of the sender's `stream` to this peer."""

    stream: int
    seqno: int
    body: Payload


class LinkAck(Message, frozen=True, tag="LinkAck"):
    """I have your `stream` up to `seqno`."""

    stream: int
    seqno: int


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Whom a process hears, and since which version of that knowledge (its boot, then a count)."""

    process: ProcessId
    version: tuple[int, int]
    hears: tuple[ProcessId, ...]


@final
class Proposal(Message, frozen=True, tag="Proposal"):
    """In this epoch I would form the view of these members. `rows`: whom everybody hears, as far as I know.

    Sent at once when it is made, and again as the heartbeat. `leaving`: I am on my way out, count me no more.
    """

    epoch: int
    members: tuple[ProcessId, ...]
    rows: tuple[Row, ...]
    leaving: bool


Frame = Hello | Data | LinkAck | Proposal
