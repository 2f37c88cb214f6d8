"""Event history: the last events of a node, for its dashboard. Bounded, and in memory: a restart begins a new one."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

OF_A_KIND_MAX = 50  # so that frequent events do not displace rare ones
TEXT_LEN_MAX = 300


class Event(NamedTuple):
    """One event, in words. `kind` is one of view, policy, upstream, resource, release, block."""

    at: float  # seconds since 1970
    kind: str
    text: str


class EventHistory:
    """The last events of each kind."""

    def __init__(self) -> None:
        self._events: dict[str, deque[Event]] = {}

    def add(self, at: float, kind: str, text: str) -> None:
        shown = text if len(text) <= TEXT_LEN_MAX else text[: TEXT_LEN_MAX - 3] + "..."
        self._events.setdefault(kind, deque(maxlen=OF_A_KIND_MAX)).append(Event(at, kind, shown))

    def listed(self) -> list[dict[str, object]]:
        """All of them, oldest first."""
        events = (one for events in self._events.values() for one in events)
        return [one._asdict() for one in sorted(events, key=lambda one: one.at)]
