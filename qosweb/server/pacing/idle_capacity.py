"""Idle capacity: bytes that a node may send to other nodes without taking capacity from the classes of clients.

A transfer between nodes gets what no response waits for, and a floor of FLOOR of the capacity, so that a site under
permanent overload can still be published. Without ``--capacity`` nothing says how many bytes a node can send: then
transfers are not limited while no request waits, and have the floor FLOOR_BPS while one does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.server.pacing.send_pacer import SendPacer

FLOOR = 0.02
FLOOR_BPS = 1_000_000
SAVED_BYTES = 64 << 10  # of the floor at most


class IdleCapacity:
    """Budget of bytes: as many as `take` returns may be sent now."""

    def __init__(self, pacer: SendPacer | None, is_busy: Callable[[], bool], clock_s: Callable[[], float]) -> None:
        """`is_busy`: whether requests of clients wait."""
        self._pacer = pacer
        self._is_busy = is_busy
        self._clock_s = clock_s
        self._saved = 0.0
        self._at_s = clock_s()

    def take(self, most: int, *, is_urgent: bool = False) -> int:
        """How many of up to `most` bytes may be sent now; 0: none. They count as sent.

        `is_urgent`: a client of the other node waits for them, so all may be sent.
        """
        pacer = self._pacer
        is_limited = pacer is not None and pacer.is_limited
        if is_urgent:
            if pacer is not None and is_limited:
                pacer.charge(most)
            return most
        if not self._is_busy():
            size = pacer.take_idle(most) if pacer is not None and is_limited else most
            if size:
                return size
        now_s = self._clock_s()
        floor_bps = pacer.rate_bps * FLOOR if pacer is not None and is_limited else FLOOR_BPS
        self._saved = min(self._saved + (now_s - self._at_s) * floor_bps, SAVED_BYTES)
        self._at_s = now_s
        size = min(int(self._saved), most)
        if size < min(most, SAVED_BYTES // 8):  # wait for more: each piece is a request
            return 0
        self._saved -= size
        if pacer is not None and is_limited:
            pacer.charge(size)
        return size
