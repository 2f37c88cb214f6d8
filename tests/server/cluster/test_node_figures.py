"""Percentiles in the figures of a node."""

from qosweb.admission.class_accounts import SERVICE_BUCKETS_S
from qosweb.server.cluster.node_figures import percentile_ms

BUCKETS = len(SERVICE_BUCKETS_S) + 1


def counts(**by_bucket: int) -> list[int]:
    return [by_bucket.get(f"b{number}", 0) for number in range(BUCKETS)]


def test_no_new_values_have_no_percentile() -> None:
    assert percentile_ms(counts(b3=7), counts(b3=7), 0.99) is None


def test_the_bound_of_the_bucket_that_reaches_the_part() -> None:
    before = counts(b0=1000, b9=50)
    assert percentile_ms(before, counts(b0=1099, b9=51), 0.99) == 0.02  # 99 of 100 new ones are in the first bucket
    assert percentile_ms(before, counts(b0=1098, b9=52), 0.99) == 20.0
    assert percentile_ms(before, counts(b0=1001, b9=50), 0.99) == 0.02


def test_values_above_all_bounds_have_the_highest_bound() -> None:
    assert percentile_ms(counts(), counts(**{f"b{BUCKETS - 1}": 1}), 0.99) == 30_000.0
