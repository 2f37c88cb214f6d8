"""Times that are tolerated inside a fast server, and alarms that last."""

from __future__ import annotations

from math import log
from statistics import median

import pytest

from cluster.sim.seeded_random import SeededRandom
from qosweb.engine.laws.knee import Knee
from qosweb.engine.laws.service_samples import MICRO, Sampler, SampleRow, Tag
from qosweb.engine.laws.service_times import LASTS_S, ServiceTimes
from qosweb.engine.laws.tolerance import WaitTolerance


def tolerance_at(rate_per_s: int) -> WaitTolerance:
    found = WaitTolerance()
    for tick in range(1, 500):
        ended = rate_per_s // 100
        found.apply(SampleRow(1, 0, ended=ended, ln=round(ended * MICRO * log(0.02))))
        found.advance(tick / 100)
    return found


def counted_ms(found: WaitTolerance, seconds: float) -> float:
    row = SampleRow(1, 0, ended=10, ln=round(10 * MICRO * log(seconds)))
    found.apply(row)
    return float(round(1000 * 2.718281828459045 ** (row.ln / MICRO / row.ended), 3))


@pytest.mark.parametrize(("rate_per_s", "tolerated_ms"), [(800, 1), (1000, 1), (3000, 3), (40_000, 5)])
def test_a_faster_server_may_keep_requests_longer(rate_per_s: int, tolerated_ms: int) -> None:
    assert 1000 * tolerance_at(rate_per_s).seconds == pytest.approx(tolerated_ms, rel=0.01)


def test_shorter_times_count_as_the_tolerated_time() -> None:
    fast = tolerance_at(40_000)
    assert counted_ms(fast, 0.004) == pytest.approx(5.0)
    assert counted_ms(fast, 0.024) == pytest.approx(24.0)
    assert counted_ms(tolerance_at(400), 0.004) == pytest.approx(4.0)


def level_at_fast_server(seed: int, until_s: float = 3.0) -> int:
    """Of a gateway that starts few requests, although each ends soon; a tenth of the time, a pause delays them."""
    knee, sampler, chance = Knee(128), Sampler(), SeededRandom(seed)
    in_service: list[tuple[float, float, Tag]] = []
    for tick in range(round(100 * until_s)):
        now_s = tick / 100
        pause_s = 0.03 if chance.random() < 0.1 else 0.0
        for _ in range(16):
            seconds = 0.0002 + 0.004 * chance.random() * knee.limit / 64 + pause_s
            in_service.append((now_s + seconds, seconds, sampler.start(0, knee.limit, True)))
        for one in [one for one in in_service if one[0] <= now_s + 0.01]:
            in_service.remove(one)
            sampler.end(0, one[1], one[2])
        knee.absorb(sampler.take())
        if (decision := knee.tick(now_s, knee.limit)) is not None:
            sampler.epoch = decision.epoch
    return knee.level


def test_a_fast_server_is_not_limited_because_its_gateway_is_slow() -> None:
    assert median(level_at_fast_server(seed) for seed in (5, 6, 7)) >= 60


def test_one_pause_of_the_server_is_no_alarm() -> None:
    """A pause of 20 ms delays 60 requests at once; then service times are as before."""
    times = ServiceTimes()

    def end(count: int, seconds: float) -> None:
        row = SampleRow(
            0, 0, ended=count, ln=round(count * MICRO * log(seconds)), us=round(count * MICRO * seconds),
            inverse=round(count / seconds), ln_in_service=round(count * MICRO * log(8)),
        )  # fmt: skip
        times.absorb(row, log(64)).learn(1, log(0.001))

    for _ in range(100):
        end(10, 0.001)
    end(60, 0.020)
    assert not times.alarmed(64, 1.0)
    for tick in range(1, 20):
        end(100, 0.001)
        assert not times.alarmed(64, 1.0 + tick / 100)
    began = 2.0
    for tick in range(20):
        end(60, 0.020)
        if times.alarmed(64, began + tick / 100):
            assert tick / 100 >= LASTS_S
            return
    pytest.fail("no alarm although service times stay longer")
