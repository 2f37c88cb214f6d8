"""Wire messages between processes, grouped by the layer that sends them, with the papers' names.

A frame travels on a connection. A payload travels on the reliable FIFO links inside `Data`. An ordered message is
multicast by the virtual synchrony layer for the view order. Each is a closed union, so that a decoder accepts these
types and no others. (`final` lets a type checker narrow the union when message types are compared.)
"""

from __future__ import annotations

from typing import final

import msgspec

from cluster.entries import Entry, Pack
from cluster.names import Label, ProcessId, View, ViewId
from cluster.run_log import Run


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all messages. Compared by value. (`gc=False`: a tree of values has no cycles.)

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
    """x = <con, ord, next, high> of fig. 5, without the parts that can be omitted.

    Positions count from 0 over the whole history. Everything below `next_confirm` is confirmed and thus the same for
    all members, so it is left out. `tail` is the order from there on, with bodies; `loose` is the content that is in no
    order yet. `base`: the first position of which the sender has entries (below it has only its snapshot). `highest`:
    the greatest ordered label of each origin, over the whole history.
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


# ---- messages of the data service: in the order of the view, but not shown to the primary views


@final
class Expertise(Message, frozen=True, tag="Expertise"):
    """x: how many entries of the total order the sender has applied.

    `is_current`: the view is primary and the sender has caught up, so it will apply every further entry as well.
    """

    last_update: int
    is_current: bool


class Query(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """<c, q, l>: a query of client c, which has seen the state at index l.

    `to`: the rank of the member that has to answer it. Negative: by round robin.
    """

    client: int
    last: int
    to: int
    body: bytes


@final
class Queries(Message, frozen=True, tag="Queries"):
    """Queries of clients of the sender."""

    queries: tuple[Query, ...]


ClientMessage = Batch | Summary
ViewMessage = Info | Registered | Batch | Summary | Expertise | Queries


# ---- ordered messages: multicast by the view order through the virtual synchrony layer. All of them carry how much of
# the view's order the sender has processed (`ack`), and how much of it all members have (`safe`).


class Slot(Message, frozen=True, tag="Slot"):
    """ATOP: how the sender uses its next `count` slots. The first is for `body`, if any; the others are given up.

    Without a body it is a null message. A null message of no slots only says that the sender has moved on to the
    distribution. The first message of a process under a distribution carries its weights (in member order).
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


# ---- messages of the interim-atomic service: multicast through the same end-point, beside those of the view order. The
# view order ignores them. They carry how many messages of each member, of any kind, the sender has delivered in this
# view (`received`, in member order), so that messages that all members have can be dropped.


def _nothing(_message: Message) -> int:
    """Acknowledgements to the view order of a message of another layer: none."""
    return 0


@final
class OpMsg(Message, frozen=True, tag="Op"):
    """<'op_msg', o, ts>: an operation with its logical time."""

    ack = safe = property(_nothing)

    ts: int
    body: bytes
    received: tuple[int, ...]


@final
class LtMsg(Message, frozen=True, tag="Lt"):
    """<'lt_msg', ts>: the logical time of the sender."""

    ack = safe = property(_nothing)

    ts: int
    received: tuple[int, ...]


@final
class StMsg(Message, frozen=True, tag="St"):
    """<'st_msg', set, x>: one chunk of the state of the sender, which is the state of all these members."""

    ack = safe = property(_nothing)

    members: tuple[ProcessId, ...]
    chunk: int
    chunks: int
    state: bytes


InterimMessage = OpMsg | LtMsg | StMsg
Ordered = Slot | Plain | Sequence | OpMsg | LtMsg | StMsg


# ---- payloads: what the reliable FIFO links (CO_RFIFO) carry


class ViewMsg(Message, frozen=True, tag="ViewMsg"):
    """<'view_msg', v>: the sender's following messages belong to view v."""

    view: View


class AppMsg(Message, frozen=True, tag="AppMsg"):
    """<'app_msg', m>"""

    body: Ordered


class FwdMsg(Message, frozen=True, tag="FwdMsg"):
    """<'fwd_msg', r, v, m, i>: the i-th message of r in v (from 1), forwarded to a member that lacks it."""

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
    """The sender has the first `count` messages of the view's order, and their records are on its disk.

    The sender knows that this holds for every member for the first `safe` of them.
    """

    view_id: ViewId
    count: int
    safe: int = 0


class Supply(Message, frozen=True, tag="Supply"):
    """One piece of the confirmed past, sent by the representative to a member of a new primary view that lacks it.

    Pieces are numbered 0 .. `pieces` - 1. If there is a snapshot (`snapshot_at` >= 0, the position it covers), its
    pieces come first. Then come entries at `position`, `position` + 1, ..., in the runs in which they were first sent.
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
    """The sender has the snapshot that the receiver is supplying up to this piece: continue from there."""

    view_id: ViewId
    piece: int


class QueryAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """<c, a, l>: the answer to a query, from the state at index l. `error`: the query failed, and why."""

    client: int
    last_update: int
    body: bytes
    error: str


class Answers(Message, frozen=True, tag="Answers"):
    """<c, a, l, g> for several clients c of the receiver in view g."""

    view_id: ViewId
    answers: tuple[QueryAnswer, ...]


Payload = ViewMsg | AppMsg | FwdMsg | SyncMsg | Ack | Supply | Resume | Answers


# ---- frames: what one connection carries


class Hello(Message, frozen=True, tag="Hello"):
    """First frame on a connection: the sender's life, and how much of the peer's stream it has (0, 0: none)."""

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
    """The sender has the peer's `stream` up to `seqno`."""

    stream: int
    seqno: int


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The processes that one process hears, with the version of this knowledge (its boot, then a count)."""

    process: ProcessId
    version: tuple[int, int]
    hears: tuple[ProcessId, ...]


@final
class Proposal(Message, frozen=True, tag="Proposal"):
    """The sender proposes a view of these members in this epoch. `rows`: who hears whom, as far as the sender knows.

    Sent at once when it is made, and again as the heartbeat. `leaving`: the sender is leaving; do not count it any
    more.
    """

    epoch: int
    members: tuple[ProcessId, ...]
    rows: tuple[Row, ...]
    leaving: bool


Frame = Hello | Data | LinkAck | Proposal
