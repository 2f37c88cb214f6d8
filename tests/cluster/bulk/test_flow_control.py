"""Heartbeat, window and retention: section 4 of TR 90-1141."""

from __future__ import annotations

from cluster.bulk.flow_control import RETENTION_MIN, SETTLE, FlowControl


def test_the_window_grows_while_it_is_used_up() -> None:
    flow = FlowControl(window=64, window_max=80)
    flow.on_heartbeat()
    assert flow.window == 64
    for _ in range(10):
        flow.used = flow.window
        flow.on_heartbeat()
    assert flow.window == 80


def test_feedback_settles_before_the_window_shrinks_again() -> None:
    flow = FlowControl(window=64, window_min=40)
    windows = []
    for _ in range(2 * SETTLE + 3):
        flow.naks = 1
        flow.on_heartbeat()
        windows.append(flow.window)
    assert windows == [48] * (SETTLE + 1) + [40] * (SETTLE + 1) + [40]


def test_a_larger_window_means_less_retention_but_room_for_a_second_nak() -> None:
    flow = FlowControl(window=64, commit_max=16_384, retention_max=64, dally=2)
    assert flow.retention == 64
    flow.window = 512
    assert flow.retention == 32
    flow.window = 100_000
    assert flow.retention == RETENTION_MIN + 2
