"""Rejects invalid frames from authenticated peers.

An entry that no replica could apply would stop every member at the same position, so entries are checked before they
enter the order. The same goes for malformed views. This module checks what is invalid at any time and from any peer.
The layers reject what is invalid only in their current state (`layer.Ejected`).
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
    """Raise BadFrame if the payload is invalid."""
    kind = type(payload)
    if kind is AppMsg or kind is FwdMsg:
        ordered = payload.body  # type: ignore[union-attr]
        if type(ordered) is not Slot and type(ordered) is not Plain:
            return
        body = ordered.body
        if type(body) is Batch:
            _check_pack(body.pack, CHECKPOINT)
        elif type(body) is Summary:
            _check_summary(body)
        elif type(body) is Info:
            for view in (body.act, *body.amb):
                if view is not None:
                    _check_view(view)
    elif kind is Supply:
        _check_supply(payload)  # type: ignore[arg-type]
    elif kind is ViewMsg:
        _check_view(payload.view)  # type: ignore[union-attr]


def _check_pack(pack: Pack, *kinds: str) -> None:
    if not pack.is_sound:
        raise BadFrame(f"malformed entries in a pack of {pack.count}")
    if pack.others:
        for entry in pack.entries():
            if entry.kind != APPLICATION:
                _check_entry(entry, *kinds)


def _check_summary(summary: Summary) -> None:
    if not 0 <= summary.base <= summary.next_confirm < POSITION_MAX:
        raise BadFrame(f"invalid summary: base {summary.base}, confirmed up to {summary.next_confirm}")
    _check_labelled(entry for _, entry in (*summary.tail, *summary.loose))


def _check_supply(supply: Supply) -> None:
    if not (0 <= supply.piece < supply.pieces <= PIECES_MAX and 0 <= supply.position < POSITION_MAX):
        raise BadFrame(f"invalid state transfer piece {supply.piece} of {supply.pieces} at {supply.position}")
    for run in supply.runs:
        if not run.pack.count:
            raise BadFrame("empty run")
        _check_pack(run.pack, CHECKPOINT, VIEW)


def _check_view(view: View) -> None:
    """Check that the view has members and that its id matches its content."""
    members = view.members
    if not 0 < len(members) == len(view.start_ids) <= PROCESSES_MAX or any(
        len(member.name) > NAME_LEN_MAX for member in members
    ):
        raise BadFrame(f"invalid view: {len(members)} members, {len(view.start_ids)} start ids")
    if view != make_view(view.id.epoch, dict(zip(members, view.start_ids, strict=True))):
        raise BadFrame("the view id does not match the view")


def _check_labelled(entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.kind != APPLICATION:
            _check_entry(entry, CHECKPOINT, VIEW)


def _check_entry(entry: Entry, *kinds: str) -> None:
    if entry.kind not in kinds:
        raise BadFrame(f"unexpected entry kind {entry.kind[:20]!r}")
    try:
        if entry.kind == CHECKPOINT:
            _decode_checkpoint(entry.body)
        else:
            _check_view(_decode_view(entry.body))
    except UNREADABLE as error:
        raise BadFrame(f"malformed entry of kind {entry.kind!r}: {error}") from None
