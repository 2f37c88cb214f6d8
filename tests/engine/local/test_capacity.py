"""Resource model of section 3.1: converges, follows changes, and resists outliers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.engine.local.capacity import (
    CAPACITY_MAX,
    CAPACITY_MIN,
    FIXED_MAX,
    FIXED_MIN,
    NS,
    PPM,
    PRIOR_BPS,
    Concurrency,
    ResourceModel,
)

SIZES = (0, 300, 1 << 10, 16 << 10, 64 << 10, 1 << 20)


def told(
    model: ResourceModel,
    bps: int,
    *,
    fixed: int = 2000,
    requests: int = 3000,
    load_ppm: int = 500_000,
    noise: float = 0.2,
    sizes: tuple[int, ...] = SIZES,
    seed: int = 1,
) -> ResourceModel:
    """Tell the model of requests of a server that has this capacity."""
    rng = random.Random(seed)
    for _ in range(requests):
        size, among = rng.choice(sizes), rng.randint(1000, 30_000)
        service_ns = (fixed + size) / bps * NS * among / 1000 * rng.uniform(1 - noise, 1 + noise)
        model.finished(size, max(1, round(service_ns)), among, load_ppm)
    return model


def test_model_without_data_returns_its_prior() -> None:
    assert ResourceModel().capacity_bps(0) == PRIOR_BPS
    assert ResourceModel(5_000_000).capacity_bps(PPM) == 5_000_000
    assert ResourceModel(0).capacity_bps(0) == CAPACITY_MIN


@pytest.mark.parametrize("bps", [300_000, 2 << 20, 100 << 20, 5 << 30])
@pytest.mark.parametrize("fixed", [200, 2000, 50_000])
def test_it_converges_to_the_capacity_and_the_fixed_cost(bps: int, fixed: int) -> None:
    model = told(ResourceModel(), bps, fixed=fixed)
    assert model.capacity_bps(500_000) == pytest.approx(bps, rel=0.1)
    assert model.fixed_bytes == pytest.approx(fixed, rel=0.25, abs=300)


def test_pages_of_one_size_determine_only_the_capacity() -> None:
    model = told(ResourceModel(), 10_000_000, fixed=0, sizes=(16 << 10,))
    assert model.fixed_bytes == ResourceModel().fixed_bytes
    assert model.capacity_bps(500_000) == pytest.approx(10_000_000, rel=0.1)


@pytest.mark.parametrize("after", [1_000_000, 4_000_000, 30_000_000, 100_000_000])
def test_follows_a_step_of_the_capacity(after: int) -> None:
    model = told(ResourceModel(), 10_000_000)
    told(model, after, requests=1500, seed=2)
    assert model.capacity_bps(500_000) == pytest.approx(after, rel=0.15)


def test_level_without_data_borrows_from_the_nearest() -> None:
    model = told(ResourceModel(), 20_000_000, load_ppm=150_000)
    told(model, 5_000_000, load_ppm=850_000, seed=2)
    assert model.capacity_bps(199_999) == pytest.approx(20_000_000, rel=0.1)
    assert model.capacity_bps(850_000) == pytest.approx(5_000_000, rel=0.1)
    assert model.capacity_bps(300_000) == model.capacity_bps(150_000)
    assert model.capacity_bps(700_000) == model.capacity_bps(850_000)
    assert model.capacity_bps(99 * PPM) == model.capacity_bps(850_000)
    assert model.capacity_bps(-5) == model.capacity_bps(150_000)


def test_one_outlier_moves_it_by_little() -> None:
    for service_ns in (1, 3_600_000_000_000):
        model = told(ResourceModel(), 10_000_000)
        before = model.capacity_bps(500_000)
        model.finished(64 << 10, service_ns, 1000, 500_000)
        assert model.capacity_bps(500_000) == pytest.approx(before, rel=0.1)


def test_occasional_outliers_have_little_effect() -> None:
    model = ResourceModel()
    for turn in range(300):
        told(model, 10_000_000, requests=20, seed=turn)
        model.finished(16 << 10, 60_000_000_000, 1000, 500_000)
    assert model.capacity_bps(500_000) == pytest.approx(10_000_000, rel=0.5)


def test_one_record_for_many_requests_counts_as_many() -> None:
    single, together = ResourceModel(), ResourceModel()
    for _ in range(100):
        single.finished(16 << 10, 500_000, 1000, 0)
    together.finished(16 << 10, 500_000, 1000, 0, count=100)
    assert together.capacity_bps(0) == pytest.approx(single.capacity_bps(0), rel=0.6)
    for _ in range(20):
        together.finished(16 << 10, 500_000, 1000, 0, count=100)
    assert together.capacity_bps(0) == pytest.approx((256 + (16 << 10)) * 2000, rel=0.05)


REQUESTS = st.tuples(
    st.integers(-5, 1 << 50),
    st.integers(-5, 1 << 50),
    st.integers(-5, 1 << 40),
    st.integers(-5, 1 << 40),
    st.integers(-1, 1 << 40),
)


@given(st.integers(-1, 1 << 60), st.lists(REQUESTS, max_size=60), st.integers(-5, 2 * PPM))
def test_any_input_gives_integers_within_bounds(
    prior: int, requests: list[tuple[int, int, int, int, int]], load_ppm: int
) -> None:
    model, again = ResourceModel(prior), ResourceModel(prior)
    for request in requests:
        model.finished(*request)
        again.finished(*request)
        assert isinstance(model.capacity_bps(load_ppm), int)
        assert CAPACITY_MIN <= model.capacity_bps(load_ppm) <= CAPACITY_MAX
        assert isinstance(model.fixed_bytes, int)
        assert FIXED_MIN <= model.fixed_bytes <= FIXED_MAX
    assert again.capacity_bps(load_ppm) == model.capacity_bps(load_ppm)


@pytest.mark.parametrize("nothing", [(-1, 10, 1000, 0), (10, 0, 1000, 0), (10, 10, 999, 0), (10, 10, 1000, 0, 0)])
def test_impossible_values_are_ignored(nothing: tuple[int, ...]) -> None:
    model = told(ResourceModel(), 10_000_000, requests=50)
    before = model.capacity_bps(500_000), model.fixed_bytes
    model.finished(*nothing)
    assert (model.capacity_bps(500_000), model.fixed_bytes) == before


def test_the_average_concurrency_of_a_request() -> None:
    here = Concurrency()
    first = here.enter(10.0)
    second = here.enter(11.0)
    assert here.leave(11.0, second, 13.0) == 2000
    assert here.leave(10.0, first, 14.0) == 1500
    assert here.now_in_service == 0
    at_once = here.enter(20.0)
    assert here.leave(20.0, at_once, 20.0) == 1000


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=30))
def test_concurrency_adds_up_to_the_time_of_all(spans: list[tuple[float, float]]) -> None:
    here = Concurrency()
    began: dict[int, tuple[float, float]] = {}
    events = sorted(
        (at, not is_start, number)
        for number, (start, length) in enumerate(spans)
        for at, is_start in ((start, True), (start + length, False))
    )
    for at, is_end, number in events:
        if is_end:
            since, area = began.pop(number)
            assert 1000 <= here.leave(since, area, at) <= 1000 * len(spans) + 1
        else:
            began[number] = (at, here.enter(at))
    assert here.area(1000.0) == pytest.approx(sum((start + length) - start for start, length in spans), abs=1e-6)
