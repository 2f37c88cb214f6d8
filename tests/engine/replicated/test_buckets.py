"""Token buckets: over time exactly the rate passes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from qosweb.engine.replicated.buckets import DEPTH_MS, REQUEST, Bucket, BucketRule

BYTES = BucketRule(0, (0,), "bytes", 50_000)
NOTHING = BucketRule(0, (0,), "bytes", 0)


def full(rule: BucketRule) -> Bucket:
    return Bucket(rule.rate_per_s * DEPTH_MS, 0)


@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=60), st.integers(1, 1_000_000))
@settings(max_examples=200, deadline=None)
def test_exactly_the_rate_passes_for_any_sizes(sizes: list[int], rate: int) -> None:
    """Somebody always waits: each starts in the first millisecond in which a token is there."""
    rule = BucketRule(0, (0,), "bytes", rate)
    bucket = full(rule)
    taken = 0
    now_ms = 0
    for size in sizes:
        opens_ms = bucket.open_at_ms(rule)
        assert opens_ms is not None
        now_ms = max(now_ms, opens_ms)
        bucket.fill(rule, now_ms)
        assert bucket.level > 0
        # What passed before is what the time so far and the full bucket brought, up to the part of the last token.
        brought = rate * (now_ms + DEPTH_MS)
        assert brought - rate <= 1000 * taken <= brought or now_ms == 0
        bucket.take(rule, 1, size)
        taken += size


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30_000)), max_size=60))
@settings(max_examples=200, deadline=None)
def test_never_exceeds_the_rate_by_more_than_one_request(steps: list[tuple[int, int]]) -> None:
    bucket = full(BYTES)
    now_ms = taken = most = 0
    for wait_ms, size in steps:
        now_ms += wait_ms
        bucket.fill(BYTES, now_ms)
        if bucket.level > 0:
            bucket.take(BYTES, 1, size)
            taken += size
            most = max(most, size)
        assert 1000 * taken <= BYTES.rate_per_s * (now_ms + DEPTH_MS) + 1000 * most


@given(st.integers(-(10**9), 10**6), st.integers(1, 10**6))
def test_opens_exactly_at_the_announced_time(level: int, rate: int) -> None:
    rule = BucketRule(0, (0,), "bytes", rate)
    bucket = Bucket(level, 100)
    opens_ms = bucket.open_at_ms(rule)
    assert opens_ms is not None
    assert bucket.level_at(rule, opens_ms) > 0
    assert opens_ms == 100 or bucket.level_at(rule, opens_ms - 1) <= 0


def test_bucket_of_rate_zero_never_opens() -> None:
    bucket = full(NOTHING)
    assert bucket.open_at_ms(NOTHING) is None
    bucket.fill(NOTHING, 10**9)
    assert bucket.level == 0


def test_time_does_not_go_back() -> None:
    bucket = Bucket(0, 100)
    bucket.fill(BYTES, 50)
    assert (bucket.level, bucket.at_ms) == (0, 100)


def test_a_request_has_one_price_where_requests_are_counted() -> None:
    rule = BucketRule(0, (0,), "requests", 10 * REQUEST)
    assert (rule.price(1, 7), rule.price(3, 99), rule.price(-1, -5)) == (REQUEST, 3 * REQUEST, -REQUEST)


def test_refund_does_not_overfill_the_bucket() -> None:
    bucket = full(BYTES)
    bucket.take(BYTES, 1, 3_000)
    bucket.take(BYTES, -1, -3_000)
    assert bucket.level == full(BYTES).level
    bucket.take(BYTES, -1, -(10**6))
    assert bucket.level == full(BYTES).level
