"""The master of the multicast transport as a replicated state machine (`cluster.StateMachine`)."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from cluster.bulk.master import ChangeView, Entry, Master, MemberRecord
from cluster.bulk.packets import RecentMessage
from cluster.names import ProcessId

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import View


class MasterState(msgspec.Struct, array_like=True):
    """A snapshot of the master."""

    session: int
    t_cur: int
    streak: int
    next: int
    recent: list[RecentMessage]
    granted: list[tuple[ProcessId, tuple[int, int]]]
    joined: list[tuple[ProcessId, MemberRecord]]
    primary: tuple[ProcessId, ...]
    coordinator: ProcessId | None


_decode_entry = msgspec.msgpack.Decoder(Entry).decode
_decode_state = msgspec.msgpack.Decoder(MasterState).decode
_encode = msgspec.msgpack.Encoder().encode


class MasterMachine:
    """Applies entries to the master through `apply_entry`, which tells the automata of this process."""

    def __init__(self, cluster: str) -> None:
        session = int.from_bytes(blake2b(cluster.encode(), digest_size=4).digest())
        self.master = Master(session)
        self.apply_entry: Callable[[Entry], None] = self.master.apply

    def apply(self, _position: int, _origin: ProcessId, body: bytes) -> object:
        try:
            entry = _decode_entry(body)
        except msgspec.DecodeError as error:
            return f"not an entry of the master: {error}"
        self.apply_entry(entry)
        return None

    def view_changed(self, _position: int, view: View) -> None:
        self.apply_entry(ChangeView(view.members))

    def snapshot(self) -> bytes:
        master = self.master
        return _encode(
            MasterState(
                master.session, master.t_cur, master.streak, master.next, master.recent, list(master.granted.items()),
                list(master.joined.items()), master.primary, master.coordinator,
            )
        )  # fmt: skip

    def restore(self, state: bytes) -> None:
        found, master = _decode_state(state), self.master
        master.session, master.t_cur, master.streak, master.next = found.session, found.t_cur, found.streak, found.next
        master.recent, master.primary, master.coordinator = found.recent, found.primary, found.coordinator
        master.granted, master.joined = dict(found.granted), dict(found.joined)
