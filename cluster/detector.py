"""Failure detector: adaptive heartbeat timeouts decide which peers this process can hear.

Paper: none of its own. It is the network event service that Khazan's thesis assumes below the membership (section 9.4).
A peer is heard while it is connected and has not been silent for longer than its timeout. The timeout adapts to the
peer: mean and deviation of its pauses, as in retransmission timers, and the longest recent pause, within bounds from
the settings.
Departs: a process that was suspended itself (its own ticks were late) does not suspect any peer for that silence. It
starts to count anew, since the peers' messages may still be waiting to be read.
Above: membership.  Below: every frame that arrives counts as a sign of life.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from cluster.layer import Context
    from cluster.names import ProcessId
    from cluster.settings import Settings


class DetectorListener(Protocol):
    def hears_changed(self) -> None: ...


class HeartbeatStats:
    """Pauses between the heartbeats of one peer, and the timeout that follows from them."""

    __slots__ = ("deviation", "heard_at", "mean", "silent", "timeout", "worst")

    def __init__(self, now: float, settings: Settings) -> None:
        self.silent = False  # silent for longer than its timeout
        self.heard_at = now
        self.mean = settings.heartbeat
        self.deviation = settings.heartbeat / 2
        self.worst = settings.heartbeat  # the longest recent pause; decays slowly
        self.timeout = 0.0
        self._set_timeout(settings)

    def add(self, pause: float, settings: Settings) -> None:
        error = pause - self.mean
        self.mean += error / 8
        self.deviation += (abs(error) - self.deviation) / 4
        self.worst = max(pause, self.worst * 0.998)
        self._set_timeout(settings)

    def _set_timeout(self, settings: Settings) -> None:
        timeout = max(self.mean + 4 * self.deviation, self.worst) + settings.heartbeat
        self.timeout = min(max(timeout, settings.suspect_min), settings.suspect_max)


class Detector:
    __slots__ = ("_beat_at_least", "_shunned", "_stats", "_ticked_at", "above", "context", "hears", "settings")

    above: DetectorListener

    def __init__(self, context: Context, settings: Settings) -> None:
        self.context = context
        self.settings = settings
        self._beat_at_least = settings.heartbeat / 2  # a frame that comes sooner is not a heartbeat
        self.hears: tuple[ProcessId, ...] = (context.me,)  # sorted
        self._stats: dict[ProcessId, HeartbeatStats] = {}  # connected peers that have sent something
        self._shunned: dict[ProcessId, float] = {}  # until when
        self._ticked_at = -inf

    def connected(self, peer: ProcessId) -> None:
        """Starts new statistics: the pauses learned on the previous connection no longer apply."""
        before = self._stats.get(peer)
        if before is not None:
            stats = self._stats[peer] = HeartbeatStats(self.context.now, self.settings)
            stats.silent = before.silent  # until the peer is heard again

    def heard(self, peer: ProcessId) -> None:
        now = self.context.now
        stats = self._stats.get(peer)
        if stats is None:
            self._stats[peer] = HeartbeatStats(now, self.settings)
            self._changed()
            return
        pause = now - stats.heard_at
        stats.heard_at = now
        if pause > self._beat_at_least:  # frames between heartbeats would hide how regular they are
            stats.add(min(pause, self.settings.suspect_max), self.settings)
        if stats.silent:  # a false suspicion: the pause counts, so that the next one like it is tolerated
            stats.silent = False
            self._changed()

    def disconnected(self, peer: ProcessId) -> None:
        if self._stats.pop(peer, None) is not None:
            self._changed()

    def shun(self, peer: ProcessId, until: float) -> None:
        """Counts this peer as not heard until the given time, whatever it sends."""
        self._shunned[peer] = until
        self._changed()

    def pardon(self, peer: ProcessId) -> None:
        if self._shunned.pop(peer, None) is not None:
            self._changed()

    def tick(self) -> None:
        now = self.context.now
        slept = now - self._ticked_at > self.settings.heartbeat + self.settings.suspect_min / 2
        self._ticked_at = now
        changed = False
        if slept:
            for stats in self._stats.values():
                stats.heard_at = now
        for stats in self._stats.values():
            if not stats.silent and now >= stats.heard_at + stats.timeout:
                stats.silent = changed = True
        for peer in [peer for peer, until in self._shunned.items() if now >= until]:
            del self._shunned[peer]
            changed = True
        if changed:
            self._changed()

    def _changed(self) -> None:
        heard = (peer for peer, stats in self._stats.items() if not stats.silent and peer not in self._shunned)
        hears = tuple(sorted([self.context.me, *heard]))
        if hears != self.hears:
            self.hears = hears
            self.above.hears_changed()

    def next_deadline(self) -> float:
        silent = min((p.heard_at + p.timeout for p in self._stats.values() if not p.silent), default=inf)
        return min(silent, min(self._shunned.values(), default=inf))
