"""Narrates a run as text, in the papers' vocabulary: frames sent and actions seen by each process.

One line per event, in four levels of detail (`narrate_summary` is shorter still). Heartbeats without news, bare link
acknowledgements, and actions that the frames show already (send and deliver of the links) are left out below full
detail. The text depends on the run alone, so it can be kept in a file and compared.
Below: the world, as one of its listeners.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from cluster import actions
from cluster.entries import Entry
from cluster.messages import (
    Ack,
    Answers,
    AppMsg,
    Batch,
    Data,
    Expertise,
    Frame,
    FwdMsg,
    Hello,
    Info,
    LinkAck,
    LtMsg,
    Message,
    OpMsg,
    Plain,
    Proposal,
    Queries,
    Registered,
    Resume,
    Sequence,
    Slot,
    StMsg,
    Summary,
    Supply,
    SyncMsg,
    ViewMsg,
)
from cluster.names import Label, ProcessId, View, ViewId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cluster.actions import Action

SHOWN_ELSEWHERE = (  # actions already shown by frames and by BRCV
    actions.LinkSend, actions.LinkDeliver, actions.LinkLive, actions.GcsSend, actions.VsSend, *actions.SEEN,
)  # fmt: skip
INSIDE = (
    *SHOWN_ELSEWHERE, actions.LinkReliable, actions.Block, actions.BlockOk, actions.GcsDeliver, actions.VsReceive,
    actions.VsSafe, actions.DvsSend, actions.DvsReceive, actions.DvsSafe, actions.StateDigest,
)  # fmt: skip
ARROW = "->"
OF_VIEWS = (
    actions.StartChange, actions.MembershipView, actions.GcsView, actions.DvsNewView, actions.DvsRegister,
    actions.Established, actions.CatchUp, actions.Crashed, actions.Recovered,
)  # fmt: skip
OTHERS = tuple(kind for kind in actions.NAMES if kind not in OF_VIEWS)


class Detail(Enum):
    """How much a narration shows."""

    VIEWS = "views, crashes and faults, without messages"
    CONVERSATION = "what is sent, and what comes of it"
    LAYERS = "also what each layer sees"
    EVERYTHING = "nothing left out"


class Narrator:
    """Writes a line for each relevant event. The same frame to several peers is one line."""

    def __init__(self, write: Callable[[str], None], detail: Detail = Detail.LAYERS) -> None:
        self.muted = False
        self._write = write
        self._everything = detail is Detail.EVERYTHING
        self._only_views = detail is Detail.VIEWS
        self._conversation = detail is Detail.CONVERSATION
        self._left_out: tuple[type[Action], ...] = {
            Detail.VIEWS: OTHERS,
            Detail.CONVERSATION: INSIDE,
            Detail.LAYERS: SHOWN_ELSEWHERE,
            Detail.EVERYTHING: (),
        }[detail]
        self._proposals: dict[ProcessId, object] = {}
        self._streamed: dict[tuple[ProcessId, ProcessId], tuple[int, int]] = {}
        self._held: tuple[float, ProcessId, str] | None = None  # pending: the next one may differ only in its peer
        self._held_to: list[ProcessId] = []

    def remark(self, time: float, text: str) -> None:
        self._line(f"{time:9.4f}  ---- {text}")

    def action(self, time: float, process: ProcessId, action: Action) -> None:
        if not isinstance(action, self._left_out):
            self._line(f"{time:9.4f}  {process!s:<4} {describe_action(action)}")

    def frame(self, time: float, sender: ProcessId, to: tuple[ProcessId, ...], frame: Frame) -> None:
        if self._only_views or (not self._everything and not self._is_news(sender, to, frame)):
            return
        again = " again" if isinstance(frame, Data) and self._is_repeated(sender, to, frame) else ""
        held = (time, sender, describe_frame(frame) + again)
        if held != self._held or self._everything:
            self.flush()
            self._held = held
        self._held_to.extend(to)

    def flush(self) -> None:
        """Write the pending frame: at the end of a narration."""
        if self._held is not None:
            time, sender, text = self._held
            to = self._held_to
            self._held, self._held_to = None, []
            self._line(f"{time:9.4f}  {sender!s:<4} {ARROW} {names(to)}: {text}")

    def _line(self, text: str) -> None:
        self.flush()
        if not self.muted:
            self._write(text)

    def _is_news(self, sender: ProcessId, to: tuple[ProcessId, ...], frame: Frame) -> bool:
        if isinstance(frame, LinkAck) or not to:
            return False
        if isinstance(frame, Data):
            return not (self._conversation and isinstance(frame.body, Ack))
        if isinstance(frame, Proposal):
            said = (frame.epoch, frame.members, frame.leaving)
            if self._proposals.get(sender) == said:
                return False
            self._proposals[sender] = said
        return True

    def _is_repeated(self, sender: ProcessId, to: tuple[ProcessId, ...], frame: Data) -> bool:
        number = (frame.stream, frame.seqno)
        repeated = False
        for peer in to:
            repeated = repeated or number <= self._streamed.get((sender, peer), (0, 0))
            self._streamed[(sender, peer)] = max(number, self._streamed.get((sender, peer), (0, 0)))
        return repeated


def names(processes: Iterable[ProcessId]) -> str:
    return " ".join(map(str, processes))


def describe_frame(frame: Frame) -> str:
    match frame:
        case Proposal(leaving=True):
            return "leaving"
        case Proposal(epoch=epoch, members=members):
            return f"proposal in epoch {epoch} of {{{names(members)}}}"
        case Hello(boot=boot, stream=stream, seqno=seqno):
            return f"hello from life {boot}" + (f", has stream {stream} up to {seqno}" if stream else "")
        case Data(body=body):
            return describe(body)
        case LinkAck(stream=stream, seqno=seqno):
            return f"has stream {stream} up to {seqno}"


def describe(message: Message) -> str:
    """A message in the papers' words."""
    match message:
        case ViewMsg(view=view):
            return f"view_msg {view}"
        case AppMsg(body=body):
            return describe(body)
        case FwdMsg(origin=origin, view_id=view_id, body=body, index=index):
            return f"fwd_msg {index} of {origin} in {view_id}: {describe(body)}"
        case SyncMsg(cid=cid, view_id=view_id, cut=cut):
            return f"sync_msg cid {cid} in {view_id} cut {numbers(cut)}"
        case Ack(view_id=view_id, count=count, safe=safe):
            return f"ack {count} in {view_id}, safe {safe}"
        case Supply(piece=piece, pieces=pieces, snapshot_at=at, position=position, runs=runs):
            what = f"snapshot at {at}, " if at >= 0 else ""
            return f"supply {piece + 1}/{pieces}: {what}{sum(run.pack.count for run in runs)} entries from {position}"
        case Resume(piece=piece):
            return f"go on with the supply from {piece + 1}"
        case Answers(answers=answers):
            shown = (
                f"to {answer.client}: {answer.error or repr(answer.body)[1:]} at {answer.last_update}"
                for answer in answers
            )
            return f"answers {', '.join(shown)}"
        case Slot(body=None, dist_id=dist, seqno=seqno, count=count):
            return f"null, {count} slots from {dist}#{seqno}"
        case Slot(body=body, dist_id=dist, seqno=seqno) if body is not None:
            return f"slot {dist}#{seqno}: {describe(body)}"
        case Plain(body=body):
            return f"to be placed: {describe(body)}"
        case Sequence(senders=senders):
            return f"sequence {numbers(senders)}"
        case OpMsg(ts=ts, body=body):
            return f"op_msg {repr(body)[1:]} at {ts}"
        case LtMsg(ts=ts):
            return f"lt_msg {ts}"
        case StMsg(members=members, chunk=chunk, chunks=chunks, state=state):
            return f"st_msg {{{names(members)}}} {chunk + 1}/{chunks}: {len(state)} bytes"
    return _describe_client(message)


def _describe_client(message: Message) -> str:
    match message:
        case Info(act=act, amb=amb):
            return f"info act {act or 'none'}, amb {{{' '.join(map(str, amb))}}}"
        case Registered():
            return "registered"
        case Batch(seqno=seqno, pack=pack):
            return f"batch from {seqno}: {' '.join(map(describe_entry, pack.entries()))}"
        case Summary(base=base, next_confirm=confirm, tail=tail, loose=loose, high_primary=high):
            known = f"next {confirm}, order from {base} to {confirm + len(tail)}"
            return f"summary {known}, high {high or 'none'}, {len(loose)} labels without a place"
        case Expertise(last_update=index, is_current=is_current):
            return f"expertise {index}{', current' if is_current else ''}"
        case Queries(queries=queries):
            shown = (f"{query.client}: {repr(query.body)[1:]} seen {query.last}" for query in queries)
            return f"queries {', '.join(shown)}"
    return repr(message)


def describe_entry(entry: Entry) -> str:
    return {"v": "the view", "c": "checkpoint"}.get(entry.kind) or repr(entry.body)[1:]


def numbers(values: Iterable[int]) -> str:
    return "(" + " ".join(map(str, values)) + ")"


_PAPER_NAMES = {
    actions.LinkSend: "send",
    actions.LinkDeliver: "deliver",
    actions.LinkReliable: "reliable",
    actions.LinkLive: "live",
    actions.StartChange: "start_change",
    actions.MembershipView: "mbrshp.view",
    actions.GcsSend: "gcs.send",
    actions.GcsDeliver: "gcs.deliver",
    actions.GcsView: "gcs.view",
    actions.Block: "block",
    actions.BlockOk: "block_ok",
    actions.VsSend: "VS-GPSND",
    actions.VsReceive: "VS-GPRCV",
    actions.VsSafe: "VS-SAFE",
    actions.VsNewView: "VS-NEWVIEW",
    actions.DvsSend: "DVS-GPSND",
    actions.DvsReceive: "DVS-GPRCV",
    actions.DvsSafe: "DVS-SAFE",
    actions.DvsNewView: "DVS-NEWVIEW",
    actions.DvsRegister: "DVS-REGISTER",
    actions.Broadcast: "BCAST",
    actions.Deliver: "BRCV",
    actions.CatchUp: "catches up",
    actions.Confirm: "CONFIRM",
    actions.Established: "established",
    actions.Submitted: "submitted",
    actions.Resolved: "resolved",
    actions.StateDigest: "digest",
    actions.InterimRequest: "request",
    actions.InterimResponse: "response",
    actions.InterimRefresh: "refresh",
    actions.InterimApplied: "do",
    actions.InterimView: "interim view",
    actions.InterimLoaded: "loads",
    actions.DataQuery: "query",
    actions.DataRequest: "request",
    actions.DataReply: "reply",
    actions.DataGone: "gone",
    actions.Crashed: "crashed",
    actions.Recovered: "recovered",
}


def describe_action(action: Action) -> str:
    name = _PAPER_NAMES.get(type(action), type(action).__name__)
    if isinstance(action, actions.InterimRefresh):
        return f"{name}({{{names(action.members)}}}, {action.digest})"
    if isinstance(action, actions.InterimApplied):
        end = ", at the end of the view" if action.at_view_end else ""
        return f"{name}({action.origin}, {repr(action.body)[1:]}{end})"
    fields = [f"{_describe_value(getattr(action, field))}" for field in action.__struct_fields__]
    return f"{name}({', '.join(text for text in fields if text)})"


def _describe_value(value: object) -> str:
    match value:
        case View() | ViewId() | Label() | ProcessId():
            return str(value)
        case Message():
            return describe(value)
        case Entry():
            return describe_entry(value)
        case bytes():
            return repr(value)[1:]
        case tuple():
            return "{" + " ".join(map(_describe_value, value)) + "}"
    return str(value)
