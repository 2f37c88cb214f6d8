"""Service samples: the shortest times are only counted, and give the same sums as if each of them were added."""

from __future__ import annotations

from math import log

import pytest

from qosweb.engine.laws.service_samples import LN_CAP, MICRO, SECONDS_MIN, UNLIMITED, Sampler

TAG = (UNLIMITED, 8)


def test_shortest_times_give_the_sums_of_all_times() -> None:
    sampler = Sampler()
    times = [SECONDS_MIN / 2] * 100 + [0.02] * 3 + [SECONDS_MIN / 3] * 2000 + [0.001_5] + [0.0] * 10
    sums = dict.fromkeys(("ended", "ln", "us", "inverse", "ln_in_service"), 0.0)
    usual = log(SECONDS_MIN)
    for seconds in times:
        sampler.end(0, seconds, TAG)
        counted = max(seconds, SECONDS_MIN)
        usual += (log(counted) - usual) / 50
        sums["ended"] += 1
        sums["ln"] += min(log(counted), usual + LN_CAP)
        sums["us"] += counted
        sums["inverse"] += 1 / counted
        sums["ln_in_service"] += log(8)
    (row,) = sampler.take()
    assert row.ended == sums["ended"] == len(times)
    assert row.ln == pytest.approx(sums["ln"] * MICRO, abs=1000)
    assert row.us == pytest.approx(sums["us"] * MICRO, abs=1)
    assert row.inverse == pytest.approx(sums["inverse"], abs=1)
    assert row.ln_in_service == pytest.approx(sums["ln_in_service"] * MICRO, abs=1)
    assert row.squares > 0
    assert sampler.take() == ()


def test_a_change_of_policy_forgets_which_classes_are_fast() -> None:
    sampler = Sampler()
    sampler.end(0, 0.0, TAG)
    sampler.forget_classes()
    sampler.end(0, 0.5, TAG)
    (row,) = sampler.take()
    assert row.ln == round(log(0.5) * MICRO)
