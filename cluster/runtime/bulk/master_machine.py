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
    views: int


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

    @property
    def is_empty(self) -> bool:
        """Whether no member has joined and nothing was sent yet: the state of a new master in its primary view."""
        return self.master.next == 1

    def clear(self, view: View | None) -> None:
        """Return to the state of a new master in this primary view."""
        self._fill(Master(self.master.session))
        if view is not None:
            self.master.apply(ChangeView(view.members))

    def snapshot(self) -> bytes:
        master = self.master
        return _encode(
            MasterState(
                master.session, master.t_cur, master.streak, master.next, master.recent, list(master.granted.items()),
                list(master.joined.items()), master.primary, master.coordinator, master.views,
            )
        )  # fmt: skip

    def restore(self, state: bytes) -> None:
        """The session stays: it follows from the name of the cluster, which a recovery changes."""
        found = _decode_state(state)
        copy = Master(self.master.session)
        copy.t_cur, copy.streak, copy.next, copy.recent = found.t_cur, found.streak, found.next, found.recent
        copy.primary, copy.coordinator, copy.views = found.primary, found.coordinator, found.views
        copy.granted, copy.joined = dict(found.granted), dict(found.joined)
        self._fill(copy)

    def _fill(self, other: Master) -> None:
        """Takes the state of another master, in place: the automata refer to this one."""
        for name in Master.__slots__:
            setattr(self.master, name, getattr(other, name))
