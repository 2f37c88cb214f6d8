"""Transfers between nodes get what no client uses, and a small floor."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from qosweb.server.pacing import send_pacer
from qosweb.server.pacing.idle_capacity import FLOOR, FLOOR_BPS, SAVED_BYTES, IdleCapacity
from qosweb.server.pacing.send_pacer import SendPacer

if TYPE_CHECKING:
    import pytest


class World:
    """A clock that the test sets, and capacity that clients may need."""

    def __init__(self, pytest_patch: pytest.MonkeyPatch, rate_bps: float | None) -> None:
        self.now_s = 100.0
        self.is_busy = False
        pytest_patch.setattr(send_pacer, "perf_counter", lambda: self.now_s)
        loop = asyncio.new_event_loop()
        loop.close()
        pacer = None if rate_bps is None else SendPacer(loop, rate_bps, lambda accounts: [1] * len(accounts))
        self.capacity = IdleCapacity(pacer, lambda: self.is_busy, lambda: self.now_s)

    def taken_in(self, seconds: float, *, step_s: float = 0.01) -> int:
        total = 0
        for _ in range(round(seconds / step_s)):
            self.now_s += step_s
            while size := self.capacity.take(1 << 20):
                total += size
                if total > 1 << 30:
                    break
        return total


def test_idle_capacity_is_used_and_not_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 2_000_000)
    assert 0.9 * 4_000_000 <= world.taken_in(2.0) <= 1.03 * 4_000_000 + SAVED_BYTES


def test_only_the_floor_while_clients_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 2_000_000)
    world.taken_in(1.0)
    world.is_busy = True
    assert world.capacity.take(10_000, is_urgent=True) == 10_000  # a client of another node waits for it
    floor = FLOOR * 2_000_000 * 10
    assert 0.8 * floor <= world.taken_in(10.0) <= floor + SAVED_BYTES


def test_without_a_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, None)
    assert world.capacity.take(1 << 20) == 1 << 20
    world.is_busy = True
    assert 0.8 * FLOOR_BPS <= world.taken_in(1.0) <= FLOOR_BPS + SAVED_BYTES
