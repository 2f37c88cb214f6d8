"""Trace events: one class for each protocol step that the specifications check.

A trace is a sequence of (process, action). The layers report actions through `Context.trace` if it is set. The
specifications in `cluster/specs` check them. `Crashed` and `Recovered` come from the runner of the processes.
"""

from __future__ import annotations

import msgspec

from cluster.entries import Entry
from cluster.messages import ClientMessage, Ordered, Payload, ViewMessage
from cluster.names import Label, ProcessId, View
from cluster.reports.messages import Origin


class Action(msgspec.Struct, frozen=True):
    """Base of all actions."""


# ---- CO_RFIFO (thesis, fig. 4.4)


class LinkSend(Action, frozen=True):  # send_p(set, m)
    to: tuple[ProcessId, ...]
    body: Payload


class LinkDeliver(Action, frozen=True):  # deliver_{q,p}(m)
    sender: ProcessId
    body: Payload


class LinkReliable(Action, frozen=True):  # reliable_p(set)
    members: tuple[ProcessId, ...]


class LinkLive(Action, frozen=True):  # live_p(set)
    members: tuple[ProcessId, ...]


# ---- MBRSHP (thesis, fig. 4.2)


class StartChange(Action, frozen=True):  # start_change_p(cid, set)
    cid: int
    members: tuple[ProcessId, ...]


class MembershipView(Action, frozen=True):  # mbrshp.view_p(v)
    view: View


# ---- GCS: WV_RFIFO, VS_RFIFO, TRANS_SET, SELF (thesis, ch. 5)


class GcsSend(Action, frozen=True):  # send_p(m)
    body: Ordered


class GcsDeliver(Action, frozen=True):  # deliver_p(q, m)
    sender: ProcessId
    body: Ordered


class GcsView(Action, frozen=True):  # view_p(v, T)
    view: View
    transitional: tuple[ProcessId, ...]


class Block(Action, frozen=True):  # block_p()
    pass


class BlockOk(Action, frozen=True):  # block_ok_p()
    pass


# ---- VS (DVS paper, fig. 1)


class VsSend(Action, frozen=True):  # VS-GPSND(m)_p
    body: ViewMessage


class VsReceive(Action, frozen=True):  # VS-GPRCV(m)_{q,p}
    sender: ProcessId
    body: ViewMessage


class VsSafe(Action, frozen=True):  # VS-SAFE(m)_{q,p}
    sender: ProcessId
    body: ViewMessage


class VsNewView(Action, frozen=True):  # VS-NEWVIEW(v)_p
    view: View


# ---- DVS (DVS paper, fig. 2)


class DvsSend(Action, frozen=True):  # DVS-GPSND(m)_p
    body: ClientMessage


class DvsReceive(Action, frozen=True):  # DVS-GPRCV(m)_{q,p}
    sender: ProcessId
    body: ClientMessage


class DvsSafe(Action, frozen=True):  # DVS-SAFE(m)_{q,p}
    sender: ProcessId
    body: ClientMessage


class DvsNewView(Action, frozen=True):  # DVS-NEWVIEW(v)_p
    view: View


class DvsRegister(Action, frozen=True):  # DVS-REGISTER_p
    pass


# ---- TO (DVS paper, section 6)


class Broadcast(Action, frozen=True):  # BCAST(a)_p
    entry: Entry


class Deliver(Action, frozen=True):  # BRCV(a)_{q,p}: the entry at `position` (from 0) of the total order
    position: int
    label: Label
    entry: Entry


class CatchUp(Action, frozen=True):  # a snapshot stands for the delivery of everything below `position`
    position: int


class Confirm(Action, frozen=True):  # CONFIRM_p, for all positions below `count`
    count: int


class Established(Action, frozen=True):  # established[g] := true, with the order that p builds on
    view: View
    length: int


# ---- the replica


class Submitted(Action, frozen=True):
    ticket: int
    body: bytes


class Resolved(Action, frozen=True):
    """The outcome of a submission: delivered at `position` (-1: inside a snapshot), or refused with a reason."""

    ticket: int
    delivered: bool
    position: int
    reason: str


class StateDigest(Action, frozen=True):
    """The digest of the state machine's state after every entry below `position` was applied."""

    position: int
    digest: str


class Applied(Action, frozen=True):
    """The state machine received the entry at `position`, in the current life of the process.

    This action takes place when it is reported. All other actions take place once the effects before them have taken
    place: a crash can undo them, and then they did not happen. A crash cannot undo what a state machine has seen.
    """

    position: int
    label: Label
    entry: Entry


class Restored(Action, frozen=True):
    """The state machine received a snapshot of everything below `position`. Takes place when it is reported."""

    position: int


SEEN = (Applied, Restored)


# ---- FIFO-SRB (Semantically Reliable Broadcast, fig. 3), beside the stack


class ReportBroadcast(Action, frozen=True):  # TP1: broadcast_i(m)
    origin: Origin
    number: int
    item: str
    value: bytes


class ReportEnqueue(Action, frozen=True):  # TP2: enqueue_i(m, o), for all numbers of the origin up to this one
    origin: Origin
    number: int
    via: ProcessId  # the member that sent it: the origin's process, or one that forwarded it


class ReportDeliver(Action, frozen=True):  # TP3: deliver_i(m)
    origin: Origin
    number: int
    item: str
    value: bytes


class ReportPurge(Action, frozen=True):  # TP5: purge_r_i(m), because `successor` makes it obsolete
    origin: Origin
    number: int
    successor: int


class ReportSafe(Action, frozen=True):  # safe_i(m), for all own reports up to this number
    origin: Origin
    number: int


class ReportForget(Action, frozen=True):  # the process gave up everything it knew about this origin
    origin: Origin


# ---- the interim-atomic service (thesis, ch. 10)


class InterimRequest(Action, frozen=True):  # request_p(o)
    ticket: int
    body: bytes


class InterimResponse(Action, frozen=True):  # response_p(o, r)
    ticket: int
    result: str


class InterimRefresh(Action, frozen=True):  # refresh_p(set, x)
    members: tuple[ProcessId, ...]
    state: bytes
    digest: str


class InterimApplied(Action, frozen=True):
    """do_p(q, o). `at_view_end`: the operation was still waiting when its view ended, and was applied then."""

    origin: ProcessId
    body: bytes
    at_view_end: bool


class InterimView(Action, frozen=True):
    """The replica entered the view, after all operations of the one before. `synced`: SS_p^v."""

    view: View
    synced: tuple[ProcessId, ...]


class InterimLoaded(Action, frozen=True):
    """The replica starts with the state on its disk."""

    digest: str


# ---- the data service (Khazan, Fekete and Lynch, DISC 1998). The runner has the clients, and reports what they do.


class DataRequest(Action, frozen=True):  # request(r)_c at p = c.proc; the client has seen the state at index `seen`
    client: str
    ticket: int
    is_update: bool
    body: bytes
    seen: int


class DataReply(Action, frozen=True):  # reply(o)_c; the client has now seen the state at `index`
    client: str
    ticket: int
    is_update: bool
    answer: bytes
    index: int


class DataGone(Action, frozen=True):
    """The client no longer waits for the reply to its request at p."""

    client: str


class DataQuery(Action, frozen=True):
    """query(c, q, l)_p: p executes a query of the client with this ticket at `origin`, on the state at `index`."""

    origin: ProcessId
    client: int
    body: bytes
    answer: bytes
    index: int


# ---- the world


class Crashed(Action, frozen=True):
    """The process stopped. It lost its connections and everything that was not on its disk."""

    disk_lost: bool


class Recovered(Action, frozen=True):
    """The process runs again, from its disk."""

    boot: int


# The name of each action in recorded traces. It never changes; the class may be renamed.
NAMES: dict[type[Action], str] = {
    LinkSend: "LinkSend",
    LinkDeliver: "LinkDeliver",
    LinkReliable: "LinkReliable",
    LinkLive: "LinkLive",
    StartChange: "StartChange",
    MembershipView: "MembershipView",
    GcsSend: "GcsSend",
    GcsDeliver: "GcsDeliver",
    GcsView: "GcsView",
    Block: "Block",
    BlockOk: "BlockOk",
    VsSend: "VsSend",
    VsReceive: "VsReceive",
    VsSafe: "VsSafe",
    VsNewView: "VsNewView",
    DvsSend: "DvsSend",
    DvsReceive: "DvsReceive",
    DvsSafe: "DvsSafe",
    DvsNewView: "DvsNewView",
    DvsRegister: "DvsRegister",
    Broadcast: "Broadcast",
    Deliver: "Deliver",
    CatchUp: "CatchUp",
    Confirm: "Confirm",
    Established: "Established",
    Submitted: "Submitted",
    Resolved: "Resolved",
    StateDigest: "StateDigest",
    Applied: "Applied",
    Restored: "Restored",
    ReportBroadcast: "ReportBroadcast",
    ReportEnqueue: "ReportEnqueue",
    ReportDeliver: "ReportDeliver",
    ReportPurge: "ReportPurge",
    ReportSafe: "ReportSafe",
    ReportForget: "ReportForget",
    InterimRequest: "InterimRequest",
    InterimResponse: "InterimResponse",
    InterimRefresh: "InterimRefresh",
    InterimApplied: "InterimApplied",
    InterimView: "InterimView",
    InterimLoaded: "InterimLoaded",
    DataRequest: "DataRequest",
    DataReply: "DataReply",
    DataGone: "DataGone",
    DataQuery: "DataQuery",
    Crashed: "Crashed",
    Recovered: "Recovered",
}
