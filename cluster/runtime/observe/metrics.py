"""Prometheus collector of a member: exports counters and gauges that other modules keep as plain integers.

Above: `python -m cluster node --metrics`, or any registry that `GroupCollector` is registered in.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from cluster.runtime.api.replica import Replica
from cluster.runtime.net.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from cluster.runtime.api.group import Group


class GroupCollector(Collector):
    """Collects the metrics of one member at each scrape."""

    def __init__(self, member: Group | Replica) -> None:
        self._member = member

    @property
    def _group(self) -> Group:
        """The current group. A replica that restarts gets a new one, whose counters start at zero."""
        return self._member.group if isinstance(self._member, Replica) else self._member

    def collect(self) -> Iterator[Metric]:
        yield from self._views()
        yield from self._entries()
        yield from self._transport()
        yield from self._reports()

    def _reports(self) -> Iterator[Metric]:
        reports = self._group.reports
        if reports is None:
            return
        yield _counter("cluster_reports_published", "Reports of this member that were broadcast", reports.published)
        yield _counter(
            "cluster_reports_purged", "Reports that became obsolete in a buffer of this member", reports.purged
        )
        skipped = CounterMetricFamily(
            "cluster_reports_skipped", "Reports of a peer that were obsolete before they came here", labels=["peer"]
        )
        unacked = GaugeMetricFamily(
            "cluster_reports_unacked", "Own reports that a peer has not acknowledged", labels=["peer"]
        )
        age = GaugeMetricFamily("cluster_reports_age_seconds", "Age of the newest report of a peer", labels=["peer"])
        for name, peer in reports.peers().items():
            skipped.add_metric([name], peer.skipped)
            unacked.add_metric([name], peer.unacked_len)
            if peer.age_s is not None:
                age.add_metric([name], peer.age_s)
        yield from (skipped, unacked, age)

    def _views(self) -> Iterator[Metric]:
        group, watch = self._group, self._group.driver.watch
        process = group.driver.process
        yield _gauge("cluster_primary", "1 while this member is in the primary view", int(group.primary is not None))
        yield _gauge(
            "cluster_primary_since_seconds",
            "Seconds since this member entered or left the primary view",
            time.monotonic() - group.primary_events.since,
        )
        yield _gauge(
            "cluster_primary_members", "Members of the primary view", len(group.primary.members) if group.primary else 0
        )
        yield _gauge("cluster_epoch", "Epoch of this member's last view proposal", process.membership.epoch)
        yield _counter("cluster_start_changes", "start_change notifications of the membership", watch.start_changes)
        yield _counter("cluster_views", "Views delivered", watch.views)
        yield _counter("cluster_view_change_seconds", "Total time from start_change to view", watch.change_s_sum)
        yield _gauge("cluster_view_change_seconds_max", "Longest time from start_change to view", watch.change_s_max)
        yield _counter("cluster_primary_views", "Primary views established", group.primary_events.count)
        yield _counter("cluster_suspicions", "Processes that the failure detector began to suspect", watch.suspicions)
        yield _gauge("cluster_recoveries", "Operator recoveries without a majority", len(group.recoveries))
        yield _counter(
            "cluster_divergences",
            "State digests of other replicas that differ from the own digest",
            group.diverged_count,
        )

        if isinstance(self._member, Replica):
            yield _counter(
                "cluster_replica_restarts",
                "Restarts of this replica because its state had diverged",
                self._member.restarts,
            )

    def _entries(self) -> Iterator[Metric]:
        driver, own = self._group.driver, self._group.driver.submissions
        total_order = driver.process.total_order
        yield _counter(
            "cluster_entries_submitted",
            "Entries submitted here",
            own.delivered + own.refused + own.outstanding,
        )
        yield _counter("cluster_entries_delivered", "Entries submitted here and delivered", own.delivered)
        yield _counter("cluster_entries_refused", "Entries submitted here and refused", own.refused)
        yield _gauge("cluster_entries_outstanding", "Entries submitted here without an outcome yet", own.outstanding)
        yield _gauge("cluster_entries_waiting", "Entries submitted here and not in a batch yet", own.waiting)
        yield _counter("cluster_entries_ordered", "Entries of all members delivered here", driver.watch.ordered)
        yield _gauge("cluster_order_length", "Length of the total order", total_order.length)
        yield _gauge("cluster_order_confirmed", "Confirmed positions of the total order", total_order.next_confirm)
        yield _gauge("cluster_order_base", "First position whose entry is kept", total_order.base)
        yield _counter("cluster_batches", "Batches submitted here", own.batches)
        yield _counter("cluster_disk_writes", "Transactions", driver.writes)
        yield _gauge("cluster_disk_refuses", "1 while writes to the disk fail", int(driver.write_failing))
        latency = HistogramMetricFamily("cluster_latency_seconds", "Time from submission to outcome, by batch")
        latency.add_metric([], own.latency.buckets(), own.latency.sum)
        yield latency
        lengths = HistogramMetricFamily("cluster_batch_entries", "Entries in a batch submitted here")
        lengths.add_metric([], own.batch_lengths.buckets(), own.batch_lengths.sum)
        yield lengths

    def _transport(self) -> Iterator[Metric]:
        transport = self._group.driver.transport
        counters = transport.counters
        yield _gauge("cluster_connections", "Connected peers", len(transport.connections))
        failed = CounterMetricFamily("cluster_handshakes_failed", "Failed handshakes, by reason", labels=["reason"])
        for kind, count in counters.handshakes_failed.items():
            failed.add_metric([kind], count)
        yield failed
        unsent = GaugeMetricFamily("cluster_unsent_bytes", "Bytes waiting to be sent to a peer", labels=["peer"])
        unacked = GaugeMetricFamily("cluster_link_length", "Payloads that a peer has not acknowledged", labels=["peer"])
        for peer, connection in list(transport.connections.items()):
            unsent.add_metric([peer.name], connection.unsent_bytes)
            unacked.add_metric([peer.name], len(self._group.driver.process.links.link(peer).unacked))
        yield unsent
        yield unacked
        yield _counter(
            "cluster_resends",
            "Payloads sent again on a new connection because they were not acknowledged",
            self._group.driver.process.links.resent,
        )
        for name, text in (
            ("accepted", "Incoming connections"),
            ("dialed", "Outgoing connection attempts"),
            ("opened", "Authenticated connections"),
            ("replaced", "Authenticated connections that replaced an older one"),
            ("ejected", "Authenticated peers cut off for an invalid frame"),
            ("closed_unsent", "Connections closed because the peer stopped reading"),
            ("closed_silent", "Connections closed because nothing arrived"),
            ("bytes_received", "Bytes received"),
            ("bytes_sent", "Bytes sent"),
            ("frames_received", "Frames received"),
            ("frames_sent", "Frames sent"),
            ("writes", "Write calls that carried frames_sent"),
        ):
            yield _counter(f"cluster_transport_{name}", text, getattr(counters, name))


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def serve_metrics(address: str) -> int:
    """Serve the metrics of this process over HTTP in a background thread; returns the port."""
    host, port = parse_address(address)
    server, _ = start_http_server(port, host)
    return server.server_port
