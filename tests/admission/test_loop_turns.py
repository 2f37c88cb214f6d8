"""Service times without the delay in the process's own event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qosweb.admission import loop_turns
from qosweb.admission.loop_turns import LoopTurns

if TYPE_CHECKING:
    from collections.abc import Callable


class Loop:
    """A loop and a clock: the callbacks of a turn run before the next poll."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.soon: list[Callable[[], None]] = []
        monkeypatch.setattr(loop_turns, "perf_counter", lambda: self.now)
        self.turns = LoopTurns(self)  # type: ignore[arg-type]

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def poll(self, slept_s: float = 0.0) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()
        self.now += slept_s

    def event(self, seconds: float = 0.0) -> float:
        """An event whose handling takes this long. Returns when it began."""
        began = self.now
        self.turns.note(began)
        self.now += seconds
        return began


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(monkeypatch)


def test_a_response_that_woke_the_loop_is_timed_exactly(loop: Loop) -> None:
    since = loop.event()
    loop.poll(slept_s=0.02)
    assert loop.turns.service_s(since, loop.now) == pytest.approx(0.02)


def test_a_response_found_by_the_first_poll_took_the_server_no_time(loop: Loop) -> None:
    """The loop was busy for 3 ms meanwhile, and for 5 ms before it read the response."""
    since = loop.event()
    loop.event(0.003)
    loop.poll()
    loop.event(0.005)
    assert loop.turns.service_s(since, loop.now) == 0


def test_a_response_of_a_slow_server_is_timed_also_by_a_busy_loop(loop: Loop) -> None:
    since = loop.event()
    for _ in range(20):
        loop.event(0.001)
        loop.poll()
    assert loop.turns.service_s(since, loop.now) == pytest.approx(0.020, abs=0.0021)
