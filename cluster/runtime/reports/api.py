"""Reports API: publish the current value of an item, read the values of all members, follow the changes.

    reports = Reports(group)                      # a Group that runs
    reports.publish("load", b"0.7")               # never waits
    reports.values()[group.me]["load"].value      # by sender and item
    async for change in reports.changes(): ...    # the latest change of each item

A value reaches every member of the view, primary or not, unless a later value of the item reaches it instead.
Below: streams, `cluster.reports.broadcast`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from cluster.layer import Context
from cluster.names import ProcessId
from cluster.reports.broadcast import SemanticBroadcast
from cluster.reports.settings import DEFAULT_REPORT_SETTINGS, ReportSettings
from cluster.runtime.reports.streams import ReportStreams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from cluster.names import View
    from cluster.runtime.api.group import Group


class ReportedValue(msgspec.Struct, frozen=True):
    """The value of an item. `born`: when its sender published it, on the monotonic clock of this machine."""

    sender: ProcessId
    item: str
    value: bytes
    born: float

    @property
    def age_s(self) -> float:
        """Seconds since it was published, without the time on the network."""
        return time.monotonic() - self.born


class PeerReports(msgspec.Struct, frozen=True):
    """State of the reports between this process and one other member."""

    peer: ProcessId
    connected: bool
    unacked: int  # own reports that the peer has not acknowledged
    unacked_bytes: int
    skipped: int  # reports of the peer that never came here because later ones made them obsolete
    age_s: float  # age of the newest report of the peer; -1 if there is none


class Reports:
    """The reports of one member. Made after its `Group`, closed with it."""

    def __init__(self, group: Group, settings: ReportSettings = DEFAULT_REPORT_SETTINGS) -> None:
        driver = group.driver
        self._context = Context(group.me, _NO_CHANCE)
        self._context.now = time.monotonic()
        self._broadcast = SemanticBroadcast(self._context, settings, driver.process.boot)
        self._broadcast.on_view(driver.process.endpoint.current_view, ())
        self._values: dict[ProcessId, dict[str, ReportedValue]] = {}
        self._lives: dict[ProcessId, int] = {}
        self._changes: dict[tuple[ProcessId, str], ReportedValue] | None = None  # unread, if somebody reads
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._turn_due = False
        self._stopped = group.stopped
        self.published = 0
        driver.watch.view_listeners.append(self._on_view)
        self._streams = ReportStreams(driver.transport, self._broadcast, self._on_input)

    # ---- publish and read

    def publish(self, item: str, value: bytes) -> None:
        """Make this the current value of the item at all members. Never waits.

        Raises ReportsFull if a peer has fallen behind and nothing makes the reports that wait for it obsolete, and
        ValueError if the item or the value is too long. Then nothing happened.
        """
        self._on_input()
        self._broadcast.publish(item, value)
        self.published += 1

    def values(self) -> dict[ProcessId, dict[str, ReportedValue]]:
        """The current values that arrived here, by sender and item: a copy. Senders may have left the view."""
        self._turn()
        return {sender: dict(values) for sender, values in self._values.items()}

    @property
    def members(self) -> tuple[ProcessId, ...]:
        """The members of the current view, primary or not."""
        return self._broadcast.view.members

    async def changes(self) -> AsyncIterator[ReportedValue]:
        """Yields the current values, then changes. A slow reader gets the latest change of each item. One reader."""
        if self._changes is not None:
            raise RuntimeError("the changes have a reader already")
        self._changes = {
            (sender, item): value for sender, values in self._values.items() for item, value in values.items()
        }
        try:
            while not self._stopped.is_set():
                while self._changes:
                    yield self._changes.pop(next(iter(self._changes)))
                self._changed.clear()
                stopped = self._loop.create_task(self._stopped.wait())
                changed = self._loop.create_task(self._changed.wait())
                await asyncio.wait((stopped, changed), return_when=asyncio.FIRST_COMPLETED)
                stopped.cancel()
                changed.cancel()
        finally:
            self._changes = None

    # ---- counters

    @property
    def purged(self) -> int:
        """Reports removed from the buffers of this process because later ones made them obsolete."""
        return self._broadcast.purged

    @property
    def replaced(self) -> int:
        """Own reports replaced by later ones before they were broadcast."""
        return self._broadcast.replaced

    @property
    def forwarded(self) -> int:
        """Reports sent on behalf of a member that was gone."""
        return self._broadcast.forwarded

    def peers(self) -> list[PeerReports]:
        """One line for each other member of the view."""
        broadcast, connected = self._broadcast, set(self._streams.peers)
        lines = []
        for member in broadcast.view.members:
            peer = broadcast.I.get(member)
            if peer is not None:
                origin = broadcast.present.get(member)
                log = broadcast.O.get(origin) if origin is not None else None
                newest = max((value.born for value in self._values.get(member, {}).values()), default=None)
                lines.append(
                    PeerReports(
                        member,
                        member in connected,
                        peer.unacked_len,
                        peer.unacked_bytes,
                        log.skipped if log is not None else 0,
                        time.monotonic() - newest if newest is not None else -1.0,
                    )
                )
        return lines

    # ---- the automaton

    def _on_view(self, view: View, transitional: tuple[ProcessId, ...]) -> None:
        self._on_input()
        self._broadcast.on_view(view, transitional)
        self._streams.dial_missing()

    def _on_input(self) -> None:
        """An input follows: set the clock, and handle the outcome at the end of the turn of the event loop."""
        self._context.now = time.monotonic()
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Take all deliveries and write the streams."""
        self._turn_due = False
        while (queued := self._broadcast.deliver()) is not None:
            origin, _, report = queued
            life = self._lives.get(origin.process, 0)
            if origin.life < life:
                continue
            if origin.life > life:  # a new life begins without values
                self._lives[origin.process] = origin.life
                self._values[origin.process] = {}
            value = ReportedValue(origin.process, report.item, report.value, report.born)
            self._values[origin.process][report.item] = value
            if self._changes is not None:
                self._changes.pop((origin.process, report.item), None)
                self._changes[origin.process, report.item] = value
                self._changed.set()
        if len(self._values) > len(self._broadcast.O):
            held = {origin.process for origin in self._broadcast.O}
            for sender in [sender for sender in self._values if sender not in held]:
                del self._values[sender]
                self._lives.pop(sender, None)
        self._context.now = time.monotonic()
        self._streams.write()


class _NoChance:
    """The automaton draws no random numbers."""

    def random(self) -> float:
        raise NotImplementedError


_NO_CHANCE = _NoChance()
