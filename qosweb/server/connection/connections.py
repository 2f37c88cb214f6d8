"""Connection table: limits the connections per client and in total, displaces idle ones, enforces timeouts.

A flood must not keep good clients out. So each client has a limit. When the table is full, a new connection displaces
the oldest connection that never sent a request or, if there is none, the connection that has been idle longest.
"""

from __future__ import annotations

import asyncio
import enum
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from qosweb.server.connection.client_share import PPM, SharedPlaces, client_key, part_of

LINGERING_MAX = 1_000  # connections at one time; above it, responses to bad requests may be lost
VICTIMS_AT_ONCE = 64


class ConnectionDecision(enum.Enum):
    """Whether a new connection is accepted."""

    ACCEPTED = enum.auto()
    TOO_MANY_FROM_CLIENT = enum.auto()
    FULL = enum.auto()


class TrackedConnection(Protocol):
    """An entry of the connection table."""

    client: str
    active_at: float

    @property
    def is_idle(self) -> bool: ...
    @property
    def transport(self) -> asyncio.Transport | None: ...
    def check_time(self, now: float) -> None: ...
    def close_if_idle(self) -> None: ...
    def abort(self) -> None: ...
    def renew_log_part(self) -> None: ...
    def block_list_changed(self) -> None: ...
    def pace_rest(self) -> None: ...


@dataclass(slots=True)
class ConnectionCounts:
    accepted: int = 0
    refused_client: int = 0
    refused_full: int = 0
    displaced: int = 0
    header_timeouts: int = 0
    idle_timeouts: int = 0
    send_timeouts: int = 0
    malformed: int = 0
    failed_handshakes: int = 0
    bad_proxy_headers: int = 0


class Connections:
    """The connection table of a node."""

    def __init__(self, *, total_max: int, per_client_max: int, share_ppm: int) -> None:
        """``share_ppm``: the part of each bounded resource that one client may hold, in millionths."""
        self.counts = ConnectionCounts()
        self.draining = False
        self.lingering = SharedPlaces(LINGERING_MAX, share_ppm)
        self.emptied = asyncio.Event()  # set when the last connection of a draining node has ended
        self.total_max = total_max
        self._per_client_max = per_client_max
        self._share_ppm = share_ppm
        self._all: dict[TrackedConnection, str] = {}  # with the client that it counts for; empty: none
        self._silent: dict[TrackedConnection, None] = {}  # no request yet; oldest first
        self._by_client: Counter[str] = Counter()
        self._victims: list[TrackedConnection] = []

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, connection: TrackedConnection, *, is_exempt: bool = False) -> ConnectionDecision:
        """Accept a connection, or not. ``is_exempt``: it is of a trusted proxy, and counts for no client."""
        client = "" if is_exempt else client_key(connection.client)
        if self._has_too_many(client):
            return ConnectionDecision.TOO_MANY_FROM_CLIENT
        if len(self._all) >= self.total_max and not self._displace_one():
            self.counts.refused_full += 1
            return ConnectionDecision.FULL
        self._add(connection, client)
        self.counts.accepted += 1
        return ConnectionDecision.ACCEPTED

    def replace(self, old: TrackedConnection, new: TrackedConnection, *, is_exempt: bool = False) -> ConnectionDecision:
        """Let ``new`` take the place of ``old``, perhaps as another client's. If refused, the place is free."""
        if old not in self._all:
            return self.enter(new, is_exempt=is_exempt)
        self.leave(old)
        client = "" if is_exempt else client_key(new.client)
        if self._has_too_many(client):
            return ConnectionDecision.TOO_MANY_FROM_CLIENT
        self._add(new, client)
        return ConnectionDecision.ACCEPTED

    def exempt(self, connection: TrackedConnection) -> None:
        """Count ``connection`` for no client any more: a node of the cluster forwards requests on it."""
        client = self._all.get(connection)
        if client:
            self._all[connection] = ""
            self._count_out(client)

    def _has_too_many(self, client: str) -> bool:
        if not client or self._by_client[client] < self._client_max:
            return False
        self.counts.refused_client += 1
        return True

    def _add(self, connection: TrackedConnection, client: str) -> None:
        if client:
            self._by_client[client] += 1
        self._all[connection] = client
        self._silent[connection] = None

    @property
    def _client_max(self) -> int:
        """Without a share, a client that has all connections displaces its own."""
        share = part_of(self.total_max, self._share_ppm)
        return self._per_client_max if self._share_ppm >= PPM else min(self._per_client_max, share)

    def lower_max(self, total_max: int) -> None:
        """Lower the total limit to ``total_max``, but never below one."""
        self.total_max = max(1, min(self.total_max, total_max))

    def on_first_request(self, connection: TrackedConnection) -> None:
        """The first request of ``connection`` is complete."""
        self._silent.pop(connection, None)

    def leave(self, connection: TrackedConnection) -> None:
        client = self._all.pop(connection, None)
        if client is None:
            return
        self._silent.pop(connection, None)
        if client:
            self._count_out(client)
        self._note_if_empty()

    def _count_out(self, client: str) -> None:
        self._by_client[client] -= 1
        if not self._by_client[client]:
            del self._by_client[client]

    def transports(self) -> list[asyncio.Transport]:
        """Of all connections that have one."""
        return [transport for one in self._all if (transport := one.transport) is not None]

    def sweep(self, now: float) -> None:
        """Let every connection check its timeouts."""
        for connection in list(self._all):
            connection.check_time(now)

    def renew_log_parts(self) -> None:
        for connection in self._all:
            connection.renew_log_part()

    def pace_rest(self) -> None:
        for connection in list(self._all):
            connection.pace_rest()

    def block_list_changed(self) -> None:
        for connection in self._all:
            connection.block_list_changed()

    def drain(self) -> None:
        """Close idle connections now, and the others after their current request."""
        self.draining = True
        for connection in list(self._all):
            connection.close_if_idle()
        self._note_if_empty()

    def abort(self) -> None:
        for connection in list(self._all):
            connection.abort()

    def _note_if_empty(self) -> None:
        if self.draining and not self._all:
            self.emptied.set()

    def _displace_one(self) -> bool:
        silent = next(iter(self._silent), None)
        if silent is not None:
            self._displace(silent)
            return True
        if not self._victims:
            idle = sorted((c for c in self._all if c.is_idle), key=lambda c: c.active_at)
            self._victims = idle[:VICTIMS_AT_ONCE][::-1]
        while self._victims:
            victim = self._victims.pop()
            if victim in self._all and victim.is_idle:
                self._displace(victim)
                return True
        return False

    def _displace(self, connection: TrackedConnection) -> None:
        self.counts.displaced += 1
        self.leave(connection)
        connection.abort()
