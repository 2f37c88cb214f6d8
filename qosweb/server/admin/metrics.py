"""Prometheus metrics of the node: responses, connections, cache, capacity, access log.

The values are read at each scrape. Nothing here runs for a request.
Neighbours: `qos_metrics` has the metrics of classes and of the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from qosweb.admission.resources import Cause
from qosweb.server.admin.qos_metrics import QosCollector
from qosweb.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from qosweb.server.process.node import Node


class NodeCollector(Collector):
    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        yield from self._answers()
        yield from self._connections()
        yield from self._blocks()
        yield from self._releases()
        yield from self._pages()
        yield from self._log()
        yield from self._pipe()
        yield from self._upstreams()
        yield from self._resources()
        info = GaugeMetricFamily("qosweb_build_info", "The running version.", labels=["version", "node"])
        info.add_metric([VERSION, self._node.name], 1)
        yield info

    def _answers(self) -> Iterator[Metric]:
        recorder = self._node.recorder
        responses = CounterMetricFamily("qosweb_responses", "Responses by status.", labels=["status"])
        for status, count in sorted(recorder.by_status().items()):
            responses.add_metric([str(status)], count)
        yield responses
        classifier = recorder.accounts.classifier
        if classifier.model is not None and classifier.shadow_counts:
            shadows = CounterMetricFamily(
                "qosweb_shadow_requests", "Requests that a shadow statement would apply to.", labels=["statement"]
            )
            for at, count in classifier.shadow_counts.items():
                shadows.add_metric([classifier.shadow_rules[at].text], count)
            yield shadows

    def _connections(self) -> Iterator[Metric]:
        connections = self._node.connections
        counts = connections.counts
        yield GaugeMetricFamily("qosweb_connections", "Open connections.", len(connections))
        yield CounterMetricFamily("qosweb_connections_accepted", "Connections accepted.", counts.accepted)
        ended = CounterMetricFamily(
            "qosweb_connections_refused", "Connections refused or ended by a limit.", labels=["reason"]
        )
        for reason, count in (
            ("client_limit", counts.refused_client),
            ("full", counts.refused_full),
            ("displaced", counts.displaced),
            ("header_timeout", counts.header_timeouts),
            ("idle_timeout", counts.idle_timeouts),
            ("send_timeout", counts.send_timeouts),
            ("malformed", counts.malformed),
            ("tls_handshake", counts.failed_handshakes),
            ("proxy_header", counts.bad_proxy_headers),
        ):
            ended.add_metric([reason], count)
        yield ended
        yield GaugeMetricFamily("qosweb_open_files", "Files being sent from disk.", self._node.open_files.taken)

    def _releases(self) -> Iterator[Metric]:
        releases = self._node.releases
        if releases is None:
            return
        current, served = releases.ledger.current, releases.site.number
        number = 0 if current is None else current.number
        yield GaugeMetricFamily("qosweb_release_current", "Number of the cluster's current release.", number)
        yield GaugeMetricFamily("qosweb_release_served", "Number of the release that this node serves.", served)

    def _blocks(self) -> Iterator[Metric]:
        blocks = self._node.blocking.blocks
        yield GaugeMetricFamily("qosweb_block_list_entries", "Clients and networks on the block list.", len(blocks))

    def _pages(self) -> Iterator[Metric]:
        store = self._node.store
        yield GaugeMetricFamily("qosweb_cache_bytes", "Memory used by cached pages.", store.memory)
        yield GaugeMetricFamily("qosweb_cache_pages", "Pages in memory.", len(store.resources))
        yield CounterMetricFamily("qosweb_cache_misses", "Pages that were read from disk.", store.reads)
        yield CounterMetricFamily("qosweb_cache_evictions", "Pages dropped for lack of memory.", store.evictions)
        yield CounterMetricFamily("qosweb_disk_errors", "Reads that failed.", store.disk_errors)

    def _upstreams(self) -> Iterator[Metric]:
        servers = self._node.upstreams.servers
        if not servers:
            return
        up = GaugeMetricFamily("qosweb_upstream_up", "Whether the upstream server is in.", labels=["server"])
        busy = GaugeMetricFamily("qosweb_upstream_in_service", "Requests at the server.", labels=["server"])
        open_now = GaugeMetricFamily("qosweb_upstream_connections", "Connections to the server.", labels=["server"])
        sent = CounterMetricFamily("qosweb_upstream_requests", "Requests sent to the server.", labels=["server"])
        failed = CounterMetricFamily(
            "qosweb_upstream_failures", "Requests without a response, or with status 5xx.", labels=["server"]
        )
        ejected = CounterMetricFamily("qosweb_upstream_ejections", "Times that the server was out.", labels=["server"])
        for one in servers:
            up.add_metric([one.name], one.health.is_in)
            busy.add_metric([one.name], one.in_service)
            open_now.add_metric([one.name], one.connections)
            sent.add_metric([one.name], one.requests)
            failed.add_metric([one.name], one.failures)
            ejected.add_metric([one.name], one.health.ejections)
        yield from (up, busy, open_now, sent, failed, ejected)
        yield GaugeMetricFamily("qosweb_streams", "Long streams.", self._node.upstreams.streams.taken)
        budget = self._node.upstreams.budget
        yield CounterMetricFamily("qosweb_upstream_retries", "Requests sent to a second server.", budget.retries)
        yield CounterMetricFamily("qosweb_upstream_retries_refused", "Retries beyond the budget.", budget.refused)

    def _resources(self) -> Iterator[Metric]:
        names = ["resource", "kind"]
        limit = GaugeMetricFamily(
            "qosweb_resource_limit_slots", "Slots of an upstream server, found or set.", labels=names
        )
        used = GaugeMetricFamily("qosweb_resource_in_use_slots", "Slots in use, by all nodes.", labels=names)
        part = GaugeMetricFamily("qosweb_resource_in_use_ratio", "Used part of the limit.", labels=names)
        waiting = GaugeMetricFamily("qosweb_resource_waiting_requests", "Requests that wait for it.", labels=names)
        short = GaugeMetricFamily(
            "qosweb_resource_contended", "Whether requests wait for this limit.", labels=[*names, "cause"]
        )
        for one in self._node.resources():
            if one.kind == "server":
                limit.add_metric([one.name, one.kind], one.limit)
                used.add_metric([one.name, one.kind], one.in_use)
            part.add_metric([one.name, one.kind], one.in_use / one.limit if one.limit else 0.0)
            waiting.add_metric([one.name, one.kind], one.waiting)
            for cause in Cause:
                short.add_metric([one.name, one.kind, cause.value], one.cause is cause)
        yield from (limit, used, part, waiting, short)

    def _pipe(self) -> Iterator[Metric]:
        meter = self._node.admission.meter
        load = meter.sampler.latest
        yield GaugeMetricFamily(
            "qosweb_capacity_bytes_per_second", "Capacity of this node, set or measured.", meter.capacity_bps
        )
        yield GaugeMetricFamily(
            "qosweb_request_fixed_cost_bytes",
            "Measured cost of a request in addition to its bytes.",
            meter.model.fixed_bytes,
        )
        yield GaugeMetricFamily("qosweb_cpu_load_ratio", "Processor load of the machine.", load.cpu_ppm / 1e6)
        yield GaugeMetricFamily(
            "qosweb_network_sent_bytes_per_second", "Bytes sent by all interfaces of the machine.", load.sent_bps
        )
        yield GaugeMetricFamily(
            "qosweb_network_received_bytes_per_second",
            "Bytes received by all interfaces of the machine.",
            load.received_bps,
        )

    def _log(self) -> Iterator[Metric]:
        log = self._node.log
        if log is not None:
            yield CounterMetricFamily("qosweb_access_log_lines", "Lines written.", log.lines_written)
            yield CounterMetricFamily(
                "qosweb_access_log_lines_lost", "Lines dropped because they could not be written.", log.lines_lost
            )
            yield GaugeMetricFamily("qosweb_access_log_lines_waiting", "Lines not written yet.", log.lines_waiting)


def registry_of(node: Node) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(NodeCollector(node))
    registry.register(QosCollector(node))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    return generate_latest(registry)
