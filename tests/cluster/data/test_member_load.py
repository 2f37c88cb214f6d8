"""Load of a member: reports age, own queries count, and the time for a query is measured while queries wait."""

from __future__ import annotations

import pytest

from cluster.data.member_load import REPORT_EVERY_S, SERVICE_S, LoadReports, MemberLoad, ServiceTime


def test_own_queries_on_the_way_count() -> None:
    load = MemberLoad()
    assert load.wait_s(0.0) == pytest.approx(SERVICE_S)
    load.own = 3
    assert load.wait_s(0.0) == pytest.approx(4 * SERVICE_S)


def test_a_report_ages() -> None:
    load = MemberLoad()
    load.report(10.0, 5, 2_000)
    assert load.wait_s(10.0) == pytest.approx(6 * 0.002)
    assert load.wait_s(10.006) == pytest.approx(3 * 0.002)
    assert load.wait_s(11.0) == pytest.approx(0.002)


def test_a_report_without_a_measured_time_keeps_the_one_before() -> None:
    load = MemberLoad()
    load.report(0.0, 0, 4_000)
    load.report(1.0, 0, 0)
    assert load.service_s == pytest.approx(0.004)


def test_a_load_is_reported_when_it_changes_but_not_all_the_time() -> None:
    reports = LoadReports()
    assert not reports.is_due(0.0, 0, 0)  # what the others assume anyway
    assert reports.is_due(0.0, 3, 0)
    assert not reports.is_due(1.0, 3, 0)
    assert reports.is_due(1.0, 4, 1_000)
    assert not reports.is_due(1.0 + REPORT_EVERY_S / 2, 9, 1_000)
    assert reports.is_due(1.0 + REPORT_EVERY_S, 9, 1_000)
    assert not reports.is_due(2.0, 9, 1_050)  # a small change of the time for one
    assert reports.is_due(2.0, 9, 1_200)


def test_the_time_for_a_query_is_measured_only_while_queries_wait() -> None:
    time = ServiceTime()
    time.on_executed(1.0, more=False)
    time.on_executed(5.0, more=True)  # four idle seconds do not count
    assert time.mean_us == 0
    time.on_executed(5.002, more=True)
    assert time.mean_us == 2_000
    time.on_executed(5.012, more=False)
    assert time.mean_us == 2_800
