"""Heartbeat, window and retention: section 4 of TR 90-1141."""

from __future__ import annotations

import pytest

from cluster.bulk.flow_control import (
    HEARTBEAT_MS_MAX,
    RELAX,
    RETENTION_MIN,
    SETTLE,
    WAIT_S_MAX,
    FlowControl,
    ReceptionMeter,
)
from cluster.bulk.packets import WINDOW_ANY, Parameters

PARAMETERS = Parameters(20, 64, 12)


def use_up(flow: FlowControl, heartbeats: int = 1) -> None:
    for _ in range(heartbeats):
        flow.used = flow.window
        flow.on_heartbeat()


def test_the_window_grows_while_it_is_used_up() -> None:
    flow = FlowControl(window=64, window_max=80)
    flow.on_heartbeat()
    assert flow.window == 64
    use_up(flow, 10)
    assert flow.window == 80


def test_the_window_does_not_grow_while_the_socket_is_full() -> None:
    flow = FlowControl(window=64)
    flow.was_blocked = True
    use_up(flow)
    assert flow.window == 64
    use_up(flow)
    assert flow.window > 64


def test_the_smallest_window_that_was_asked_for_after_feedback_has_settled() -> None:
    flow = FlowControl(window=64, window_min=10)
    windows = []
    for _ in range(2 * SETTLE + 3):
        flow.ask(Parameters(20, WINDOW_ANY, 12))
        flow.ask(Parameters(20, flow.window // 2, 12))
        flow.on_heartbeat()
        windows.append(flow.window)
    assert windows == [32] * (SETTLE + 1) + [16] * (SETTLE + 1) + [10]


def test_one_wish_lowers_the_window_to_a_quarter_at_most() -> None:
    flow = FlowControl(window=64)
    flow.ask(Parameters(20, 1, 12))
    flow.on_heartbeat()
    assert flow.window == 16


def test_the_window_grows_slowly_above_the_one_that_was_asked_for() -> None:
    flow = FlowControl(window=512)
    flow.ask(Parameters(20, 256, 12))
    flow.on_heartbeat()
    use_up(flow)
    assert flow.window == 256 + 2 + 1


def test_the_heartbeat_doubles_with_the_window_and_relaxes() -> None:
    flow = FlowControl(window=64)
    flow.ask(Parameters(30, WINDOW_ANY, 12))
    flow.on_heartbeat()
    assert (flow.heartbeat_ms, flow.window) == (40, 128)
    for _ in range(RELAX + 2):
        flow.on_heartbeat()
    assert (flow.heartbeat_ms, flow.window) == (20, 64)
    for _ in range(20):
        flow.ask(Parameters(60_000, WINDOW_ANY, 12))
        flow.on_heartbeat()
    assert flow.heartbeat_ms == HEARTBEAT_MS_MAX


def test_a_larger_window_means_less_retention_but_room_for_a_second_nak() -> None:
    flow = FlowControl(window=64, commit_max=16_384, retention_max=64, dally=2)
    assert flow.retention == 64
    flow.window = 512
    assert flow.retention == 32
    flow.window = 100_000
    assert flow.retention == RETENTION_MIN + 2


def received(arrived: int, lost: int) -> ReceptionMeter:
    meter = ReceptionMeter(0.0)
    for _ in range(arrived):
        meter.on_packet(0.01, 0)
    meter.on_lost(lost)
    return meter


def test_a_consumer_that_loses_much_asks_for_the_window_that_it_took() -> None:
    meter = received(600, 600)
    assert meter.wish(0.03, PARAMETERS).window == WINDOW_ANY  # nothing is measured yet
    assert meter.wish(0.06, PARAMETERS).window == 200
    assert meter.wish(0.13, PARAMETERS).window == 200
    for at in range(600):
        meter.on_packet(0.15, at)
    assert meter.wish(0.16, PARAMETERS).window == WINDOW_ANY  # nothing was lost since


def test_the_loss_of_a_few_packets_is_no_measurement() -> None:
    assert received(60, 60).wish(0.06, PARAMETERS).window == WINDOW_ANY


def test_a_consumer_that_loses_single_packets_asks_for_nothing() -> None:
    assert received(950, 50).wish(0.06, PARAMETERS).window == WINDOW_ANY


def test_a_consumer_asks_for_a_longer_heartbeat_when_answers_are_late() -> None:
    meter = ReceptionMeter(0.0)
    meter.on_nak(1.0, 7, 2.0)
    meter.on_packet(1.1, 6)
    assert meter.answer_s == 0.0
    meter.on_packet(1.2, 7)
    assert meter.answer_s == pytest.approx(0.2)
    assert meter.wish(30.0, PARAMETERS).heartbeat_ms == 40
    assert meter.wish(30.0, Parameters(80, 256, 12)).heartbeat_ms == 80
    for at in range(20):
        meter.on_nak(2.0 + at, at, 3.0 + at)
        meter.on_packet(2.01 + at, at)
    assert meter.wish(30.0, PARAMETERS).heartbeat_ms == 20


def test_a_repair_that_was_lost_is_no_late_answer() -> None:
    meter = ReceptionMeter(0.0)
    meter.on_nak(1.0, 7, 1.1)
    meter.on_packet(1.3, 7)
    assert meter.repair_s == pytest.approx(0.3)
    assert meter.wish(30.0, PARAMETERS).heartbeat_ms == 20


def test_the_time_to_the_next_nak_follows_repairs() -> None:
    """Lost repairs must not make it ever longer. Only silence doubles it."""
    meter = ReceptionMeter(0.0)
    assert meter.wait_s(0.02, 0) == pytest.approx(0.24)
    for at in range(200):  # every tenth repair is lost once, and comes after the second NAK
        meter.on_nak(at, at, at + 0.1)
        meter.on_packet(at + (0.04 if at % 10 else 0.16), at)
    assert 0.08 <= meter.wait_s(0.02, 0) < 0.16
    assert meter.wait_s(0.02, 2) == pytest.approx(4 * meter.wait_s(0.02, 0))
    assert meter.wait_s(0.02, 99) == pytest.approx(8 * meter.wait_s(0.02, 0))
    assert meter.wait_s(1.0, 99) == WAIT_S_MAX
    meter.on_nak(300.0, 300, 300.1)
    meter.on_packet(301.0, 300)  # the producer is slow now
    assert meter.wait_s(0.02, 0) > 0.5


def test_a_packet_that_was_only_late_is_no_loss() -> None:
    meter = received(600, 600)
    meter.on_lost(-600)
    assert meter.wish(0.06, PARAMETERS).window == WINDOW_ANY
