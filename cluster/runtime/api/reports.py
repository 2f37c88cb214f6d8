"""Reports API: publish the current value of something to all members; the next value makes it obsolete.

    reports = Reports()
    group = await Group.join(options, machine, reports=reports)   # or Replica, or found
    reports.publish("load", b"0.7")                               # never waits
    reports.current["b"]["load"].value                            # the last value of member b that arrived here
    async for change in reports.changes(): ...                    # every change, or the newest if this loop is slow

A slow member misses values that became obsolete, and nobody waits for it. It needs no primary view: members of one view
have the same current values after a while, and a newcomer gets all of them.
Below: `cluster.reports.broadcast`, report streams.
"""

from __future__ import annotations

import asyncio
import random
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from cluster.layer import Context
from cluster.reports.broadcast import SemanticBroadcast
from cluster.reports.settings import ReportSettings
from cluster.runtime.api.group import NotDelivered

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from cluster.names import ProcessId, View
    from cluster.reports.delivery_queue import QueuedReport
    from cluster.reports.messages import Origin, ReportFrame
    from cluster.runtime.net.report_streams import ReportStreams


class ReportedValue(NamedTuple):
    """A value, and when it was published, by the monotonic clock of this process."""

    value: bytes
    born: float

    @property
    def age_s(self) -> float:
        """Seconds since it was published, apart from its last hop."""
        return time.monotonic() - self.born


class ReportChange(NamedTuple):
    """A value that was delivered."""

    sender: str
    item: str
    value: bytes
    age_s: float


class PeerReports(NamedTuple):
    """Figures of one other member of the view."""

    connected: bool
    unacked_len: int  # own reports that it has not acknowledged
    unacked_bytes: int
    skipped: int  # its reports that never came here because they were obsolete
    age_s: float | None  # of its newest value here


class Sender:
    """The values of one life of a member."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.values: dict[str, ReportedValue] = {}
        self.shown: Mapping[str, ReportedValue] = MappingProxyType(self.values)
        self.born = 0.0  # of its newest value


class Reports:
    """The reports of one member. They belong to the group (or replica) that they were passed to."""

    def __init__(self, settings: ReportSettings | None = None) -> None:
        self.settings = settings or ReportSettings()
        self._broadcast: SemanticBroadcast | None = None
        self._streams: ReportStreams | None = None
        self._own: dict[str, bytes] = {}
        self._senders: dict[str, Sender] = {}  # by name
        self._callbacks: list[Callable[[ReportChange], None]] = []
        self._turn_due = False
        self._news: asyncio.Event | None = None  # set for the reader of `changes`, which takes deliveries itself

    # ---- publish

    def publish(self, item: str, value: bytes) -> None:
        """Make this the current value of the item of this member, for all members.

        Returns at once. Raises ReportsFull if a bound of `ReportSettings` is reached (it names the slowest member),
        ValueError if item or value are too long, and NotDelivered if this member does not run.
        """
        broadcast = self._broadcast
        if broadcast is None:
            raise NotDelivered("this member does not run: the reports are not attached to a group")
        broadcast.context.now = time.monotonic()
        broadcast.publish(item, value)
        self._own[item] = value
        self._schedule_turn()

    # ---- observation

    @property
    def current(self) -> Mapping[str, Mapping[str, ReportedValue]]:
        """The values of each member by its name, this one included, and by item.

        A member that left is in it until too many left or a new process has its name.
        """
        return {name: sender.shown for name, sender in self._senders.items()}

    def on_change(self, callback: Callable[[ReportChange], None]) -> None:
        """Call `callback` at each delivery. It runs inside the member: if it is slow, the member is slow."""
        self._callbacks.append(callback)

    async def changes(self) -> AsyncGenerator[ReportChange, None]:
        """Yields values as they are delivered, this member's own too. One reader at a time.

        While there is a reader, it sets the pace: values that wait for it are replaced by newer ones, and `current`
        has what it took.
        """
        if self._news is not None:
            raise RuntimeError("the changes of these reports have a reader")
        self._news = news = asyncio.Event()
        news.set()
        try:
            while True:
                queued = self._deliver()
                if queued is not None:
                    yield self._change(queued)
                else:
                    news.clear()
                    await news.wait()
        finally:
            self._news = None
            self._schedule_turn()

    @property
    def purged(self) -> int:
        """Reports that became obsolete in a buffer of this member, or before they left it."""
        broadcast = self._broadcast
        return broadcast.purged + broadcast.Q.purged + broadcast.own.replaced if broadcast is not None else 0

    @property
    def published(self) -> int:
        """Own reports that were broadcast."""
        return self._broadcast.B if self._broadcast is not None else 0

    def peers(self) -> dict[str, PeerReports]:
        """Figures of each other member of the current view, by name."""
        broadcast, now = self._broadcast, time.monotonic()
        if broadcast is None:
            return {}
        found = {}
        for member in broadcast.view.members:
            if member == broadcast.me.process:
                continue
            peer, origin = broadcast.I[member], broadcast.present.get(member)
            sender = self._senders.get(member.name)
            found[member.name] = PeerReports(
                peer.connected,
                peer.unacked_len,
                peer.unacked_bytes,
                broadcast.O[origin].skipped if origin in broadcast.O else 0,
                now - sender.born if sender is not None and sender.values else None,
            )
        return found

    # ---- for the driver and the streams

    def attach(self, me: ProcessId, streams: ReportStreams) -> None:
        """A member starts. Its life has a number that no earlier life had, also if it left nothing on a disk."""
        if self._broadcast is not None:
            raise ValueError("these reports already belong to a running group")
        context = Context(me, random.Random())
        context.now = time.monotonic()
        self._broadcast = SemanticBroadcast(context, self.settings, time.time_ns())
        self._streams = streams
        self._senders.clear()
        for item, value in self._own.items():
            self.publish(item, value)

    def detach(self, streams: ReportStreams) -> None:
        if self._streams is streams:
            self._broadcast = self._streams = None

    def on_view(self, view: View, transitional: tuple[ProcessId, ...]) -> None:
        broadcast = self._input()
        if broadcast is None:
            return
        broadcast.on_view(view, transitional)
        names = {member.name for member in view.members}
        gone = [name for name in self._senders if name not in names]
        for name in gone[: max(0, len(gone) - self.settings.departed_len_max)]:
            del self._senders[name]
        self._schedule_turn()

    def on_stream(self, peer: ProcessId) -> None:
        broadcast = self._input()
        if broadcast is not None:
            broadcast.on_connected(peer)
            self._schedule_turn()

    def on_stream_closed(self, peer: ProcessId) -> None:
        broadcast = self._input()
        if broadcast is not None:
            broadcast.on_disconnected(peer)

    def on_report_frame(self, peer: ProcessId, frame: ReportFrame) -> None:
        broadcast = self._input()
        if broadcast is not None:
            broadcast.on_frame(peer, frame)

    def next_frame(self, peer: ProcessId) -> ReportFrame | None:
        return self._broadcast.next_frame(peer) if self._broadcast is not None else None

    def _input(self) -> SemanticBroadcast | None:
        if self._broadcast is not None:
            self._broadcast.context.now = time.monotonic()
        return self._broadcast

    def _schedule_turn(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            asyncio.get_running_loop().call_soon(self.turn)

    def turn(self) -> None:
        """Deliver the reports that came, then write those that are due."""
        self._turn_due = False
        broadcast, streams = self._input(), self._streams
        if broadcast is None or streams is None:
            return
        if self._news is not None:
            self._news.set()
        else:
            while (queued := self._deliver()) is not None:
                self._notify(queued)
        for peer in sorted(broadcast.due):
            streams.write(peer)

    def _deliver(self) -> QueuedReport | None:
        broadcast = self._input()
        queued = broadcast.deliver() if broadcast is not None else None
        if broadcast is None or queued is None:
            return None
        if broadcast.due and not self._turn_due:
            self._schedule_turn()
        origin, _, (item, value, born) = queued
        sender = self._senders.get(origin.process.name)
        if sender is None or sender.origin != origin:
            if sender is not None and broadcast.present.get(sender.origin.process) == sender.origin:
                return queued  # of an earlier life, forwarded late
            sender = self._senders[origin.process.name] = Sender(origin)
        sender.values[item] = ReportedValue(value, born)
        sender.born = max(sender.born, born)
        return queued

    def _notify(self, queued: QueuedReport) -> None:
        for callback in self._callbacks:
            callback(self._change(queued))

    def _change(self, queued: QueuedReport) -> ReportChange:
        origin, _, (item, value, born) = queued
        return ReportChange(origin.process.name, item, value, time.monotonic() - born)
