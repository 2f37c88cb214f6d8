"""Figures of a member for Prometheus. Counted elsewhere as plain integers; read here when somebody asks.

Above: `python -m cluster node --metrics`, or any registry that `GroupCollector` is put into.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from cluster.runtime.api.replica import Replica
from cluster.runtime.net.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from cluster.runtime.api.group import Group


class GroupCollector(Collector):
    def __init__(self, member: Group | Replica) -> None:
        self._member = member

    @property
    def _group(self) -> Group:
        """A replica that started anew has another one, whose figures begin at zero."""
        return self._member.group if isinstance(self._member, Replica) else self._member

    def collect(self) -> Iterator[Metric]:
        yield from self._views()
        yield from self._entries()
        yield from self._transport()

    def _views(self) -> Iterator[Metric]:
        group, watch = self._group, self._group.driver.watch
        process = group.driver.process
        yield _gauge("cluster_primary", "1 while this member is in the primary view", int(group.primary is not None))
        yield _gauge("cluster_primary_since_seconds", "How long that has been so", time.monotonic() - group.news.since)
        yield _gauge(
            "cluster_primary_members", "Members of the primary view", len(group.primary.members) if group.primary else 0
        )
        yield _gauge("cluster_epoch", "The last epoch that this member proposed in", process.membership.epoch)
        yield _counter("cluster_start_changes", "start_change of the membership", watch.start_changes)
        yield _counter("cluster_views", "Views delivered", watch.views)
        yield _counter("cluster_view_change_seconds", "From start_change to the view, all together", watch.change_s_sum)
        yield _gauge("cluster_view_change_seconds_max", "The longest of them", watch.change_s_max)
        yield _counter("cluster_primary_views", "Primary views established", group.news.count)
        yield _counter("cluster_suspicions", "Processes that were heard, and then no more", watch.suspicions)
        yield _gauge("cluster_recoveries", "How often an operator went on without a majority", len(group.recoveries))
        yield _counter("cluster_divergences", "States of other replicas that differ from ours", group.diverged_count)

        if isinstance(self._member, Replica):
            yield _counter("cluster_replica_restarts", "How often its state was given up", self._member.restarts)

    def _entries(self) -> Iterator[Metric]:
        driver, own = self._group.driver, self._group.driver.submissions
        total_order = driver.process.total_order
        yield _counter(
            "cluster_entries_submitted",
            "Entries submitted here",
            own.delivered + own.refused + own.outstanding,
        )
        yield _counter("cluster_entries_delivered", "Of these, how many were delivered", own.delivered)
        yield _counter("cluster_entries_refused", "Of these, how many were refused", own.refused)
        yield _gauge("cluster_entries_outstanding", "Of these, how many have no end yet", own.outstanding)
        yield _gauge("cluster_entries_waiting", "Of these, how many no batch has yet", own.waiting)
        yield _counter("cluster_entries_ordered", "Entries of all members delivered here", driver.watch.ordered)
        yield _gauge("cluster_order_length", "Positions in the total order", total_order.length)
        yield _gauge("cluster_order_confirmed", "Positions that are confirmed", total_order.next_confirm)
        yield _gauge("cluster_order_base", "The position from which on entries are held", total_order.base)
        yield _counter("cluster_batches", "Batches submitted here", own.batches)
        yield _counter("cluster_disk_writes", "Transactions", driver.writes)
        yield _gauge("cluster_disk_refuses", "1 while the disk takes nothing", int(driver.write_failing))
        latency = HistogramMetricFamily("cluster_latency_seconds", "From submission to the end, by batch")
        latency.add_metric([], own.latency.buckets(), own.latency.sum)
        yield latency
        lengths = HistogramMetricFamily("cluster_batch_entries", "Entries in a batch submitted here")
        lengths.add_metric([], own.batch_lengths.buckets(), own.batch_lengths.sum)
        yield lengths

    def _transport(self) -> Iterator[Metric]:
        transport = self._group.driver.transport
        counters = transport.counters
        yield _gauge("cluster_connections", "Peers that are connected", len(transport.connections))
        failed = CounterMetricFamily("cluster_handshakes_failed", "Connections refused, by reason", labels=["reason"])
        for kind, count in counters.handshakes_failed.items():
            failed.add_metric([kind], count)
        yield failed
        unsent = GaugeMetricFamily("cluster_unsent_bytes", "Bytes that a peer has not taken yet", labels=["peer"])
        unacked = GaugeMetricFamily("cluster_link_length", "Payloads not acknowledged by a peer", labels=["peer"])
        for peer, connection in list(transport.connections.items()):
            unsent.add_metric([peer.name], connection.unsent_bytes)
            unacked.add_metric([peer.name], len(self._group.driver.process.links.link(peer).unacked))
        yield unsent
        yield unacked
        yield _counter(
            "cluster_resends",
            "Payloads without an acknowledgement that left once more when a connection began",
            self._group.driver.process.links.resent,
        )
        for name, text in (
            ("accepted", "Connections that others made to us"),
            ("dialed", "Attempts to make one"),
            ("opened", "Connections to peers that proved themselves"),
            ("replaced", "Of these, how many took the place of another one"),
            ("ejected", "Peers that proved themselves and then sent what is no frame"),
            ("closed_unsent", "Connections closed because the peer took nothing"),
            ("closed_silent", "Connections closed because nothing arrived"),
            ("bytes_received", "Bytes received"),
            ("bytes_sent", "Bytes sent"),
            ("frames_received", "Frames received"),
            ("frames_sent", "Frames sent"),
            ("writes", "Writes that these frames left in"),
        ):
            yield _counter(f"cluster_transport_{name}", text, getattr(counters, name))


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def serve_metrics(address: str, registry: CollectorRegistry = REGISTRY) -> int:
    """Serve the registry over HTTP, in a thread of its own; the port."""
    host, port = parse_address(address)
    server, _ = start_http_server(port, host, registry)
    return server.server_port
