"""Flash crowds and capacity needs, from a table of outcomes."""

from qosweb.analytics.judge.capacity_needs import capacity, needs
from qosweb.analytics.judge.flash_crowds import find_crowds
from qosweb.analytics.read.rows import LogEvent
from qosweb.analytics.read.tables import OutcomeCounts
from qosweb.analytics.read.timeline import Timeline


def row(at: int, name: str, served: int, denied: int = 0) -> OutcomeCounts:
    return OutcomeCounts(at, None, name, served, denied, 0, 0, 0, 0, 0, 0, 0, served * 100)


TABLE = [
    *(row(at, "a", 100) for at in range(0, 100, 10) if at not in (50, 60)),
    row(50, "a", 300, 700),
    row(60, "a", 300, 500),
    *(row(at, "b", 50, 10 if at == 50 else 0) for at in range(0, 100, 10)),
]


def test_a_crowd_has_begin_end_factor_and_classes_that_paid() -> None:
    (crowd,) = find_crowds(TABLE, 10)
    assert (crowd.name, crowd.begin_s, crowd.end_s, crowd.factor) == ("a", 50, 70, 10.0)
    assert [name for name, _, _ in crowd.paid] == ["a", "b"]
    assert crowd.paid[1][1:] == (1.0, 100 / 110)


def test_steady_demand_is_no_crowd() -> None:
    assert find_crowds([row(at, "a", 100) for at in range(0, 100, 10)], 10) == []


def test_load_after_idleness_is_no_crowd() -> None:
    idle = [row(at, "b", 50) for at in range(0, 400, 10)]
    assert find_crowds([*idle, *(row(at, "a", 100) for at in range(300, 400, 10))], 10) == []


def test_capacity_needs() -> None:
    a, b = needs(TABLE, 10)
    assert (a.peak_bps, a.served_bps) == (10_000.0, (8 * 100 + 600) * 100 / 100)
    assert b.mean_bps == (500 + 10) * 100 / 100


def test_capacity_over_time() -> None:
    rows = capacity(TABLE, Timeline([LogEvent("capacity", 40.0, "n", 1, capacity_bps=900)], ["n"]), 10)
    assert [one.window_s for one in rows] == list(range(0, 100, 10))
    assert (rows[5].served_bps, rows[5].known_bps) == (3500.0, 900)
