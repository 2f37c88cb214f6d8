"""Event history: the last events of a node, for its dashboard. Bounded, and in memory: a restart begins a new one."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

EVENTS_MAX = 200
TEXT_LEN_MAX = 300


class Event(NamedTuple):
    """What happened, in words. `kind` is one of view, policy, upstream, resource, release, block."""

    at: float  # seconds since 1970
    kind: str
    text: str


class EventHistory:
    """The last EVENTS_MAX events, oldest first."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=EVENTS_MAX)

    def add(self, at: float, kind: str, text: str) -> None:
        self._events.append(Event(at, kind, text if len(text) <= TEXT_LEN_MAX else text[: TEXT_LEN_MAX - 3] + "..."))

    def listed(self) -> list[dict[str, object]]:
        return [one._asdict() for one in self._events]
