"""Events about resources: when contention begins and ends, and when a limit changes."""

from __future__ import annotations

from dataclasses import replace

from qosweb.admission.resources import Cause, LimitSource, ResourceState
from qosweb.server.accesslog.resource_events import CALM_S, EVERY_S, SAMPLE_EVERY_S, ResourceEvents

IDLE = ResourceState("app", "server", "app", 8, LimitSource.KNEE, 0, 0, None)
BUSY = replace(IDLE, in_use=8, waiting=3, cause=Cause.SERVER)


class Log:
    def __init__(self) -> None:
        self.lines: list[ResourceState] = []
        self.events = ResourceEvents(list, self.lines.append)
        self._now = 100.0

    def pass_time(self, seconds: float, state: ResourceState) -> None:
        for _ in range(round(seconds / SAMPLE_EVERY_S)):
            self.events.observe([state], self._now)
            self._now += SAMPLE_EVERY_S


def test_contention_has_a_beginning_and_an_end() -> None:
    log = Log()
    log.pass_time(3, IDLE)
    log.pass_time(3, BUSY)
    assert log.lines == [IDLE, BUSY]
    log.pass_time(CALM_S / 2, IDLE)
    log.pass_time(3, BUSY)
    assert log.lines == [IDLE, BUSY]  # the queue was empty for a moment
    log.pass_time(3, IDLE)
    assert log.lines == [IDLE, BUSY, IDLE]


def test_a_change_of_the_limit_is_logged_if_it_is_material() -> None:
    log = Log()
    log.pass_time(3, replace(IDLE, limit=20))
    log.pass_time(3, replace(IDLE, limit=22))
    log.pass_time(3, replace(IDLE, limit=23))
    assert [one.limit for one in log.lines] == [20, 23]


def test_a_rough_estimate_changes_rarely() -> None:
    log = Log()
    node = ResourceState("n1", "node", "nodes", 1000, LimitSource.MEASURED, 0, 0, None, 256)
    for limit in (1000, 1400, 800, 1600):
        log.pass_time(2, replace(node, limit=limit))
    assert [one.limit for one in log.lines] == [1000, 1600]


def test_events_of_a_resource_that_flaps_are_bounded() -> None:
    log = Log()
    for at in range(200):
        log.pass_time(0.1, BUSY if at % 2 else replace(BUSY, cause=Cause.SET, limit=4))
    assert 10 <= len(log.lines) <= 20 / EVERY_S


def test_a_resource_without_a_limit_is_not_known_yet() -> None:
    log = Log()
    log.pass_time(2, replace(IDLE, limit=0))
    assert log.lines == []
