"""What a peer that has the key may not send all the same: entries that no replica could apply.

An entry that got into the order would stop every member at the same place, so it is looked at before it does. All else
that makes no sense is ignored by the layers themselves.
Above: connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.messages import APPLICATION, CHECKPOINT, VIEW, AppMsg, Batch, Entry, FwdMsg, Plain, Slot, Summary, Supply
from cluster.names import View
from cluster.replica import Checkpoint
from cluster.runtime.wire import Garbage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.messages import Payload

_decode_checkpoint = msgspec.msgpack.Decoder(Checkpoint).decode
_decode_view = msgspec.msgpack.Decoder(View).decode


def vet(payload: Payload) -> None:
    """Raises Garbage."""
    kind = type(payload)
    if kind is AppMsg or kind is FwdMsg:
        ordered = payload.body  # type: ignore[union-attr]
        if type(ordered) is not Slot and type(ordered) is not Plain:
            return
        body = ordered.body
        if type(body) is Batch:
            for entry in body.entries:
                if entry.kind != APPLICATION:
                    _vet_entry(entry, CHECKPOINT)
        elif type(body) is Summary:
            _vet_labelled(entry for _, entry in (*body.tail, *body.loose))
    elif kind is Supply:
        _vet_labelled(entry for _, entry in payload.entries)  # type: ignore[union-attr]


def _vet_labelled(entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.kind != APPLICATION:
            _vet_entry(entry, CHECKPOINT, VIEW)


def _vet_entry(entry: Entry, *kinds: str) -> None:
    if entry.kind not in kinds:
        raise Garbage(f"an entry of the kind {entry.kind[:20]!r}")
    try:
        if entry.kind == CHECKPOINT:
            _decode_checkpoint(entry.body)
        else:
            _decode_view(entry.body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Garbage(f"an entry of the kind {entry.kind!r} that is none: {error}") from None
