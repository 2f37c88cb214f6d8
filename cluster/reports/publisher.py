"""Flow control of a process's own reports: broadcast at once, wait for room, or be refused.

A report that finds no room waits unnumbered, and its successor takes its place there. A report replaced before it was
broadcast costs nobody anything. Bounded: items, and items that wait.
Neighbours: `broadcast` numbers reports and knows how far each peer is behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.reports.broadcast import SemanticBroadcast
    from cluster.reports.settings import ReportSettings


class ReportsFull(Exception):
    """A report cannot be published: a bound is reached. The message names the bound."""


class Publisher:
    """Decides when the own reports of `broadcast` are broadcast."""

    def __init__(self, broadcast: SemanticBroadcast, settings: ReportSettings) -> None:
        self._broadcast = broadcast
        self._settings = settings
        self.pending: dict[str, tuple[bytes, float]] = {}  # reports that wait for room, unnumbered: value, birth
        self.items: set[str] = set()
        self.replaced = 0  # reports replaced before they were broadcast

    def publish(self, item: str, value: bytes) -> None:
        """Broadcasts a report, or lets it wait for room. Raises ReportsFull or ValueError, and then did nothing."""
        settings, now = self._settings, self._broadcast.context.now
        if not 0 < len(item) <= settings.item_len_max:
            raise ValueError(f"an item has a name of 1 to {settings.item_len_max} characters, not {len(item)}")
        if len(value) > settings.value_len_max:
            raise ValueError(
                f"the value of {item!r} has {len(value)} bytes; at most {settings.value_len_max} are allowed"
            )
        if settings.semantic and item not in self.items and len(self.items) >= settings.items_len_max:
            raise ReportsFull(
                f"{item!r} would be item {len(self.items) + 1}; at most {settings.items_len_max} are allowed"
            )
        if not self.pending and self._has_room(item):
            self._broadcast.broadcast(item, value, now)
        elif item not in self.pending and len(self.pending) >= settings.pending_len_max:
            raise ReportsFull(self._why_full())
        else:
            if self.pending.pop(item, None) is not None:
                self.replaced += 1
            self.pending[item] = (value, now)
        if settings.semantic:
            self.items.add(item)

    def publish_pending(self) -> None:
        """There may be room again."""
        while self.pending:
            item = next(iter(self.pending))
            if not self._has_room(item):
                return
            value, born = self.pending.pop(item)
            self._broadcast.broadcast(item, value, born)

    def _has_room(self, item: str) -> bool:
        broadcast, settings = self._broadcast, self._settings
        for member in broadcast.view.members:
            peer = broadcast.I.get(member)
            if peer is not None and (
                peer.unacked_len >= settings.buffer_len_max or peer.unacked_bytes >= settings.buffer_bytes_max
            ):
                return False
        return broadcast.Q.has_room(broadcast.me, item)

    def _why_full(self) -> str:
        broadcast = self._broadcast
        members = [member for member in broadcast.view.members if member in broadcast.I]
        queue_len = len(broadcast.Q)
        if not members or queue_len >= self._settings.queue_len_max:
            return f"{queue_len} reports wait for delivery to this application, and {len(self.pending)} items for room"
        slowest = max(members, key=lambda member: broadcast.I[member].unacked_len)
        peer = broadcast.I[slowest]
        return (
            f"{slowest.name} has not acknowledged {peer.unacked_len} reports ({peer.unacked_bytes} bytes) that "
            f"nothing made obsolete, and {len(self.pending)} more items wait; publish fewer items, or raise the bounds"
        )
