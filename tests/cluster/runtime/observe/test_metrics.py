"""Prometheus metrics of a member: all documented metrics exist and count correctly."""

from __future__ import annotations

import time

import pytest
from prometheus_client import CollectorRegistry

from cluster import Group, Options
from cluster.runtime.observe.histogram import BATCH_LENGTHS, BucketHistogram
from cluster.runtime.observe.metrics import GroupCollector
from tests.cluster.runtime.loops import run

KEY = b"k" * 32

# What an operator of a group asks for, and the metrics that answer it.
PROMISED = {
    "views": ("cluster_views_total", "cluster_primary_views_total"),
    "view changes": ("cluster_start_changes_total",),
    "their duration": ("cluster_view_change_seconds_total", "cluster_view_change_seconds_max"),
    "epochs": ("cluster_epoch",),
    "primary or not": ("cluster_primary", "cluster_primary_members"),
    "since when": ("cluster_primary_since_seconds",),
    "entries submitted": ("cluster_entries_submitted_total",),
    "ordered": ("cluster_entries_ordered_total", "cluster_order_length"),
    "confirmed": ("cluster_order_confirmed",),
    "delivered": ("cluster_entries_delivered_total",),
    "latency": ("cluster_latency_seconds_bucket", "cluster_latency_seconds_sum", "cluster_latency_seconds_count"),
    "batch sizes": ("cluster_batch_entries_bucket", "cluster_batch_entries_sum", "cluster_batch_entries_count"),
    "queue lengths": (
        "cluster_entries_waiting", "cluster_entries_outstanding", "cluster_link_length", "cluster_unsent_bytes",
    ),
    "resends": ("cluster_resends_total",),
    "suspicions": ("cluster_suspicions_total",),
    "bytes": ("cluster_transport_bytes_received_total", "cluster_transport_bytes_sent_total"),
    "strangers": ("cluster_handshakes_failed_total", "cluster_transport_accepted_total"),
}  # fmt: skip


def options(process: str, *contacts: str) -> Options:
    return Options(name=process, key=KEY, listen=("127.0.0.1:0",), contacts=contacts)


def figures(group: Group) -> dict[str, float]:
    """Metric values by name; for metrics with labels the last one."""
    registry = CollectorRegistry()
    registry.register(GroupCollector(group))
    return {sample.name: sample.value for metric in registry.collect() for sample in metric.samples}


def test_every_documented_metric_exists() -> None:
    async def story() -> None:
        async with await Group.found(options("a")) as a, await Group.join(options("b", a.addresses[0])) as b:
            await b.primary_of(2)
            await b.broadcast(b"x")
            b.driver.process.links.resent = 3
            found = figures(b)
            missing = {what: name for what, names in PROMISED.items() for name in names if name not in found}
            assert not missing
            assert found["cluster_batch_entries_count"] == found["cluster_batch_entries_sum"] == 1
            assert found["cluster_resends_total"] == 3
            assert found["cluster_primary"] == 1

    run(story)


def test_without_a_primary_view_the_time_counts_from_the_start() -> None:
    async def story() -> None:
        began = time.monotonic()
        async with await Group.join(options("b", "127.0.0.1:1")) as b:
            found = figures(b)
            assert found["cluster_primary"] == 0
            assert 0 <= found["cluster_primary_since_seconds"] <= time.monotonic() - began

    run(story)


@pytest.mark.parametrize(("length", "bucket"), [(1, "1"), (3, "4"), (512, "512"), (513, "+Inf")])
def test_a_value_is_in_the_first_bucket_that_is_not_below_it(length: int, bucket: str) -> None:
    histogram = BucketHistogram(BATCH_LENGTHS)
    histogram.add(length)
    buckets = dict(histogram.buckets())
    assert next(bound for bound, count in buckets.items() if count) == bucket
    assert buckets["+Inf"] == 1
    assert histogram.sum == length
