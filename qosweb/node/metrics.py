"""The node's numbers in Prometheus' terms. They are read when asked for; nothing here is on a request's path."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from qosweb.node.ledger import SERVICE_BUCKETS_S
from qosweb.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from qosweb.node.node import Node


CLASSES_SHOWN_MAX = 200


class NodeCollector(Collector):
    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._connections()
        yield from self._pages()
        yield from self._log()
        yield from self._pipe()
        info = GaugeMetricFamily("qosweb_build_info", "The version that runs.", labels=["version", "node"])
        info.add_metric([VERSION, self._node.name], 1)
        yield info

    def _requests(self) -> Iterator[Metric]:
        ledger = self._node.ledger
        accounts = ledger.policy.all_accounts
        if len(accounts) > CLASSES_SHOWN_MAX:  # then those that had a request
            accounts = [account for account in accounts if account.service_sum_s]
        requests = CounterMetricFamily("qosweb_requests", "Requests by what was decided.", labels=["class", "outcome"])
        for account in accounts:
            for outcome, count in sorted(account.by_decision().items()):
                requests.add_metric([account.name, outcome], count)
        yield requests
        responses = CounterMetricFamily("qosweb_responses", "Answers by status.", labels=["status"])
        for status, count in sorted(ledger.by_status().items()):
            responses.add_metric([str(status)], count)
        yield responses
        sent = CounterMetricFamily("qosweb_response_bytes", "Bytes of bodies sent.", labels=["class"])
        for account in accounts:
            sent.add_metric([account.name], account.bytes_sent)
        yield sent
        service = HistogramMetricFamily(
            "qosweb_request_service_seconds",
            "From the start of a request to its last byte.",
            labels=["class"],
        )
        bounds = [*map(str, SERVICE_BUCKETS_S), "+Inf"]
        for account in accounts:
            buckets = list(zip(bounds, accumulate(account.service_counts), strict=True))
            service.add_metric([account.name], buckets, account.service_sum_s)
        yield service
        labels = ledger.policy.labels
        if labels.model is not None and labels.shadow_counts:
            shadows = CounterMetricFamily(
                "qosweb_shadow_requests", "Requests that a shadow statement would be about.", labels=["statement"]
            )
            for at, count in labels.shadow_counts.items():
                shadows.add_metric([labels.shadow_rules[at].text], count)
            yield shadows
        if labels_hash := labels.policy:
            info = GaugeMetricFamily("qosweb_policy_info", "The specification in force.", labels=["hash"])
            info.add_metric([labels_hash], 1)
            yield info
        yield GaugeMetricFamily("qosweb_requests_in_service", "Requests now in service.", self._node.gate.in_service)

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
        ):
            ended.add_metric([reason], count)
        yield ended
        yield GaugeMetricFamily("qosweb_open_files", "Files being sent from disk.", self._node.open_files.now)

    def _pages(self) -> Iterator[Metric]:
        store = self._node.store
        yield GaugeMetricFamily("qosweb_cache_bytes", "Memory held by pages.", store.memory)
        yield GaugeMetricFamily("qosweb_cache_pages", "Pages in memory.", len(store.resources))
        yield CounterMetricFamily("qosweb_cache_misses", "Pages that were looked for on the disk.", store.reads)
        yield CounterMetricFamily("qosweb_cache_evictions", "Pages dropped for lack of memory.", store.evictions)
        yield CounterMetricFamily("qosweb_disk_errors", "Reads that failed.", store.disk_errors)

    def _pipe(self) -> Iterator[Metric]:
        meter = self._node.meter
        load = meter.watch.latest
        yield GaugeMetricFamily(
            "qosweb_capacity_bytes_per_second", "What this node can deliver, set or measured.", meter.capacity_bps
        )
        yield GaugeMetricFamily(
            "qosweb_request_fixed_cost_bytes",
            "What a request costs beside its bytes, measured.",
            meter.model.fixed_bytes,
        )
        yield GaugeMetricFamily("qosweb_cpu_load_ratio", "Of all processors of the machine.", load.cpu_ppm / 1e6)
        yield GaugeMetricFamily(
            "qosweb_network_sent_bytes_per_second", "Of all interfaces of the machine.", load.sent_bps
        )
        yield GaugeMetricFamily(
            "qosweb_network_received_bytes_per_second", "Of all interfaces of the machine.", load.received_bps
        )

    def _log(self) -> Iterator[Metric]:
        log = self._node.log
        if log is not None:
            yield CounterMetricFamily("qosweb_access_log_lines", "Lines written.", log.lines_written)
            yield CounterMetricFamily("qosweb_access_log_lines_lost", "Lines that could not be kept.", log.lines_lost)
            yield GaugeMetricFamily("qosweb_access_log_lines_waiting", "Lines not written yet.", log.lines_waiting)


def registry_of(node: Node) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(NodeCollector(node))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    return generate_latest(registry)
