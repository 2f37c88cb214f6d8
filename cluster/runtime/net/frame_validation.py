"""What a peer that has the key may not send all the same: what makes no sense whoever gets it, and whenever.

An entry that no replica could apply would stop every member at the same place, so it is looked at before it gets into
the order; the same goes for views that are none. What makes no sense only now and from this peer is ignored by the
layers (`layer.Ejected`).
Above: connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.entries import APPLICATION, CHECKPOINT, VIEW, Entry
from cluster.membership import PROCESSES_MAX
from cluster.messages import AppMsg, Batch, FwdMsg, Info, Plain, Slot, Summary, Supply, ViewMsg
from cluster.names import NAME_LEN_MAX, View, make_view
from cluster.replica import Checkpoint
from cluster.runtime.net.wire import UNREADABLE, BadFrame

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.entries import Pack
    from cluster.messages import Payload

POSITION_MAX = 2**53
PIECES_MAX = 2**31

_decode_checkpoint = msgspec.msgpack.Decoder(Checkpoint).decode
_decode_view = msgspec.msgpack.Decoder(View).decode


def validate_frame(payload: Payload) -> None:
    """Raises Garbage."""
    kind = type(payload)
    if kind is AppMsg or kind is FwdMsg:
        ordered = payload.body  # type: ignore[union-attr]
        if type(ordered) is not Slot and type(ordered) is not Plain:
            return
        body = ordered.body
        if type(body) is Batch:
            _vet_pack(body.pack, CHECKPOINT)
        elif type(body) is Summary:
            _vet_summary(body)
        elif type(body) is Info:
            for view in (body.act, *body.amb):
                if view is not None:
                    _vet_view(view)
    elif kind is Supply:
        _vet_supply(payload)  # type: ignore[arg-type]
    elif kind is ViewMsg:
        _vet_view(payload.view)  # type: ignore[union-attr]


def _vet_pack(pack: Pack, *kinds: str) -> None:
    if not pack.is_sound:
        raise BadFrame(f"{pack.count} entries that are not what they are said to be")
    if pack.others:
        for entry in pack.entries():
            if entry.kind != APPLICATION:
                _vet_entry(entry, *kinds)


def _vet_summary(summary: Summary) -> None:
    if not 0 <= summary.base <= summary.next_confirm < POSITION_MAX:
        raise BadFrame(f"a summary from {summary.base} that is confirmed up to {summary.next_confirm}")
    _vet_labelled(entry for _, entry in (*summary.tail, *summary.loose))


def _vet_supply(supply: Supply) -> None:
    if not (0 <= supply.piece < supply.pieces <= PIECES_MAX and 0 <= supply.position < POSITION_MAX):
        raise BadFrame(f"piece {supply.piece} of {supply.pieces} at {supply.position}")
    for run in supply.runs:
        if not run.pack.count:
            raise BadFrame("a run without entries")
        _vet_pack(run.pack, CHECKPOINT, VIEW)


def _vet_view(view: View) -> None:
    """The id of a view says what it is: nobody can name one that has no members, or other ones."""
    members = view.members
    if not 0 < len(members) == len(view.start_ids) <= PROCESSES_MAX or any(
        len(member.name) > NAME_LEN_MAX for member in members
    ):
        raise BadFrame(f"a view of {len(members)} members and {len(view.start_ids)} start ids")
    if view != make_view(view.id.epoch, dict(zip(members, view.start_ids, strict=True))):
        raise BadFrame("a view whose id is that of another one")


def _vet_labelled(entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.kind != APPLICATION:
            _vet_entry(entry, CHECKPOINT, VIEW)


def _vet_entry(entry: Entry, *kinds: str) -> None:
    if entry.kind not in kinds:
        raise BadFrame(f"an entry of the kind {entry.kind[:20]!r}")
    try:
        if entry.kind == CHECKPOINT:
            _decode_checkpoint(entry.body)
        else:
            _vet_view(_decode_view(entry.body))
    except UNREADABLE as error:
        raise BadFrame(f"an entry of the kind {entry.kind!r} that is none: {error}") from None
