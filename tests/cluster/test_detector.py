"""Failure detector on a hand-driven clock."""

from __future__ import annotations

from random import Random

import pytest

from cluster.detector import Detector
from cluster.layer import Context
from cluster.names import ProcessId
from cluster.runtime.api.options import RUNTIME_SETTINGS
from cluster.settings import DEFAULT, Settings

A, B, C = (ProcessId(name) for name in "abc")


class Ear:
    def __init__(self, settings: Settings = DEFAULT) -> None:
        self.context = Context(B, Random(0))
        self.detector = Detector(self.context, settings)
        self.detector.above = self
        self.changes = 0

    def hears_changed(self) -> None:
        self.changes += 1

    def heard(self) -> str:
        return "".join(peer.name for peer in self.detector.hears)

    def listen(self, until: float, *, every: float = DEFAULT.heartbeat, peers: tuple[ProcessId, ...] = ()) -> None:
        while self.context.now + every <= until:
            self.context.now += every
            for peer in peers:
                self.detector.heard(peer)
            self.detector.tick()


@pytest.fixture
def ear() -> Ear:
    return Ear()


def test_a_process_hears_itself(ear: Ear) -> None:
    assert ear.heard() == "b"


def test_a_peer_is_heard_until_it_falls_silent(ear: Ear) -> None:
    ear.listen(2.0, peers=(C, A))
    assert ear.heard() == "abc"
    assert ear.changes == 2
    ear.listen(2.0 + DEFAULT.suspect_min - 0.1, peers=(A,))
    assert ear.heard() == "abc"
    ear.listen(2.0 + DEFAULT.suspect_min + 0.2, peers=(A,))
    assert ear.heard() == "ab"
    ear.detector.heard(C)
    assert ear.heard() == "abc"


def test_runtime_settings_tolerate_300_ms_and_suspect_after_500_ms() -> None:
    ear, beat = Ear(RUNTIME_SETTINGS), RUNTIME_SETTINGS.heartbeat
    ear.listen(5.0, every=beat, peers=(A,))
    changes = ear.changes
    for _ in range(3):  # tolerated pauses do not extend the timeout further
        ear.listen(ear.context.now + 0.301)
        assert (ear.heard(), ear.changes) == ("ab", changes)
        ear.listen(ear.context.now + 1.001, every=beat, peers=(A,))
    ear.listen(ear.context.now + 0.301, every=beat)
    assert ear.heard() == "ab"
    ear.listen(ear.context.now + 0.201, every=beat)
    assert ear.heard() == "b"


def test_a_broken_connection_is_silence_at_once(ear: Ear) -> None:
    ear.listen(1.0, peers=(A,))
    ear.detector.disconnected(A)
    assert ear.heard() == "b"


def test_a_new_connection_in_the_place_of_another_changes_nothing_until_the_peer_is_heard(ear: Ear) -> None:
    ear.listen(1.0, peers=(A,))
    changes = ear.changes
    ear.detector.connected(A)
    assert (ear.heard(), ear.changes) == ("ab", changes)
    ear.listen(1.0 + DEFAULT.suspect_max + 0.2)
    assert ear.heard() == "b"
    ear.detector.connected(A)
    assert ear.heard() == "b"
    ear.detector.heard(A)
    assert ear.heard() == "ab"


def test_the_timeout_follows_an_irregular_peer_within_bounds(ear: Ear) -> None:
    ear.listen(1.0, peers=(A,))
    steady = ear.detector.next_deadline() - ear.context.now
    assert steady == pytest.approx(DEFAULT.suspect_min)
    for pause in (0.3, 0.05, 0.33, 0.1) * 5:
        ear.context.now += pause
        ear.detector.heard(A)
    nervous = ear.detector.next_deadline() - ear.context.now
    assert steady < nervous <= DEFAULT.suspect_max


def test_the_timeout_adapts_to_a_pause_that_was_too_long(ear: Ear) -> None:
    ear.listen(1.0, peers=(A,))
    changes = []
    for _ in range(10):
        before = ear.changes
        ear.listen(ear.context.now + 0.55)
        ear.detector.heard(A)
        changes.append(ear.changes - before)
    assert changes[0] == 2  # out and in again
    assert changes[-1] == 0


def test_the_timeout_is_bounded_for_a_slow_peer(ear: Ear) -> None:
    ear.listen(1.0, peers=(A,))
    for _ in range(5):
        ear.listen(ear.context.now + 2 * DEFAULT.suspect_max)
        ear.detector.heard(A)
    assert ear.heard() == "ab"
    assert ear.detector.next_deadline() - ear.context.now == pytest.approx(DEFAULT.suspect_max)
    ear.listen(ear.context.now + DEFAULT.suspect_max + DEFAULT.heartbeat)
    assert ear.heard() == "b"


def test_the_deadline_is_the_moment_of_suspicion(ear: Ear) -> None:
    ear.listen(1.0, peers=(A,))
    while ear.heard() == "ab":
        assert ear.context.now < 2
        ear.context.now = min(ear.detector.next_deadline(), ear.context.now + DEFAULT.heartbeat)
        ear.detector.tick()
    assert ear.context.now == pytest.approx(1.0 + DEFAULT.suspect_min)


def test_a_suspended_process_suspects_no_peer(ear: Ear) -> None:
    ear.listen(1.0, peers=(A,))
    ear.context.now += 60.0
    ear.detector.tick()
    assert ear.heard() == "ab"
    ear.listen(ear.context.now + DEFAULT.suspect_max)
    assert ear.heard() == "b"


def test_a_shunned_peer_is_not_heard(ear: Ear) -> None:
    ear.listen(1.0, peers=(A, C))
    ear.detector.shun(A, 2.0)
    ear.detector.shun(C, float("inf"))
    assert ear.heard() == "b"
    ear.listen(2.05, peers=(A, C))
    assert ear.heard() == "ab"
    ear.detector.pardon(C)
    assert ear.heard() == "abc"
