"""Prometheus metrics of QoS: requests, waits and denials of each class, shares, the queue and the cluster.

Shares and the queue cover the whole cluster as this replica sees it. Requests, waits and denials are this node's own.
Neighbours: `metrics` has the node's other metrics; `cluster.runtime.observe.metrics` has those of the group, which are
included while the node is a member of a cluster.
"""

from __future__ import annotations

import time
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from cluster import GroupCollector
from qosweb.admission.class_accounts import SERVICE_BUCKETS_S
from qosweb.server.admin.status import held_share, members_of, scope_of
from qosweb.server.proxy.health import HealthState
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from qosweb.admission import ClassAccount
    from qosweb.server.process.node import Node

CLASSES_SHOWN_MAX = 200
BUCKETS = (*map(str, SERVICE_BUCKETS_S), "+Inf")


class QosCollector(Collector):
    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._classes()
        yield from self._cluster()
        yield from self._nodes()
        membership = self._node.membership
        if membership is not None:
            yield from GroupCollector(membership.group).collect()

    def _nodes(self) -> Iterator[Metric]:
        """The figures of all nodes that this node knows, each with its age."""

        def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"qosweb_node_{name}", text, labels=["node", *labels])

        capacity = gauge("capacity_bytes_per_second", "Capacity of a node.", "source")
        gauges = [
            gauge("figures_age_seconds", "Age of the figures of a node."),
            gauge("load_ratio", "Processor load of a node."),
            gauge("connections", "Open connections of a node."),
            gauge("requests_in_service", "Requests in service at a node."),
            gauge("queue_entries", "Waiting requests of a node."),
            gauge("served_requests_per_second", "Requests served by a node in the last second."),
        ]
        by_class = [
            gauge("class_served_requests_per_second", "Requests served in the last second.", "class"),
            gauge("class_denied_requests_per_second", "Requests denied in the last second.", "class"),
            gauge("class_queue_entries", "Waiting requests of a node.", "class"),
        ]
        wait = gauge("class_wait_p99_seconds", "99 of 100 requests of the last ten seconds waited no longer.", "class")
        service = gauge(
            "class_service_p99_seconds", "99 of 100 responses of the last ten seconds took no longer.", "class"
        )
        upstream = gauge("upstream_up", "Whether a node sends requests to the upstream server.", "server")
        for name, (figures, born) in sorted(self._node.live.nodes.items()):
            capacity.add_metric([name, figures.capacity_source], figures.capacity_bytes_per_s)
            values = (
                time.monotonic() - born, figures.load, figures.connections, figures.in_service, figures.waiting,
                figures.served_per_s,
            )  # fmt: skip
            for family, value in zip(gauges, values, strict=True):
                family.add_metric([name], value)
            for which, of in figures.classes.items():
                for family, value in zip(by_class, (of.served_per_s, of.denied_per_s, of.waiting), strict=True):
                    family.add_metric([name, which], value)
                for family, value_ms in ((wait, of.wait_p99_ms), (service, of.service_p99_ms)):
                    if value_ms is not None:
                        family.add_metric([name, which], value_ms / 1e3)
            for server, one in figures.upstreams.items():
                upstream.add_metric([name, server], int(one.health == HealthState.IN.value))
        yield from (capacity, *gauges, *by_class, wait, service, upstream)

    def _accounts(self) -> list[ClassAccount]:
        accounts = self._node.admission.accounts.all_accounts
        if len(accounts) > CLASSES_SHOWN_MAX:  # show only classes that had a request
            accounts = [account for account in accounts if account.service_sum_s]
        return accounts

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("qosweb_requests", "Requests by outcome.", labels=["class", "outcome"])
        sent = CounterMetricFamily("qosweb_response_bytes", "Bytes of response bodies sent.", labels=["class"])
        wait = HistogramMetricFamily(
            "qosweb_request_wait_seconds", "From the arrival of a request to its start or its end.", labels=["class"]
        )
        service = HistogramMetricFamily(
            "qosweb_request_service_seconds", "From the start of a request to its last byte.", labels=["class"]
        )
        rejected = CounterMetricFamily(
            "qosweb_rejected_requests", "Requests that were denied or expired.", labels=["class", "reason"]
        )
        for account in self._accounts():
            for outcome, count in sorted(account.by_decision().items()):
                requests.add_metric([account.name, outcome], count)
            sent.add_metric([account.name], account.bytes_sent)
            wait.add_metric([account.name], _buckets(account.waits), max(0.0, account.wait_sum_s))
            service.add_metric([account.name], _buckets(account.service_counts), account.service_sum_s)
            for reason, count in sorted(account.reasons.items()):
                rejected.add_metric([account.name, reason], count)
        yield from (requests, sent, wait, service, rejected)
        yield GaugeMetricFamily("qosweb_requests_in_service", "Requests in service.", self._node.admission.in_service)
        tickets = CounterMetricFamily("qosweb_tickets", "Tickets presented by clients, by verdict.", labels=["verdict"])
        for verdict, count in sorted(self._node.admission.redirects.verdicts.items()):
            tickets.add_metric([verdict], count)
        yield tickets

    def _classes(self) -> Iterator[Metric]:
        """Queue and shares of each class in the whole cluster."""
        engine = self._node.admission.engine
        if engine is None:
            return
        machine = engine.machine
        shown = [
            (number, one)
            for number, one in enumerate(machine.classes)
            if len(machine.classes) <= CLASSES_SHOWN_MAX or one.waiting or one.totals.started
        ]
        waiting = GaugeMetricFamily("qosweb_queue_entries", "Waiting requests in the cluster.", labels=["class"])
        held = GaugeMetricFamily(
            "qosweb_class_share_ratio", "Share of the bytes recently started in the cluster.", labels=["class"]
        )
        target = GaugeMetricFamily(
            "qosweb_class_share_target_ratio", "Target share of the capacity, under current demand.", labels=["class"]
        )
        promised = GaugeMetricFamily(
            "qosweb_class_share_promised_ratio", "Guaranteed share, if all classes are saturated.", labels=["class"]
        )
        got_bps = engine.recent_starts_bps()
        for number, one in shown:
            waiting.add_metric([one.name], one.waiting)
            held.add_metric([one.name], held_share(got_bps, number))
            target.add_metric([one.name], machine.scheduler.shares[number] / PPM)
            if not machine.scheduler.bound.always[number]:
                promised.add_metric([one.name], machine.promised[number] / PPM)
        yield from (waiting, held, target, promised)

    def _cluster(self) -> Iterator[Metric]:
        node = self._node
        yield GaugeMetricFamily(
            "qosweb_primary", "1 unless this node is cut off from its cluster.", int(scope_of(node) != "local")
        )
        yield GaugeMetricFamily(
            "qosweb_view_epoch",
            "Epoch of the primary view; 0 without one.",
            0 if node.primary is None else node.primary.id.epoch,
        )
        yield GaugeMetricFamily("qosweb_view_members", "Nodes that decide together.", len(members_of(node)))
        if node.admission.engine is not None:
            yield GaugeMetricFamily(
                "qosweb_cluster_capacity_bytes_per_second",
                "Total capacity of the nodes that decide together.",
                node.admission.engine.machine.capacity_bps,
            )
        policy = node.admission.accounts.classifier.policy_hash
        if policy:
            info = GaugeMetricFamily("qosweb_policy_info", "The specification in force.", labels=["hash"])
            info.add_metric([policy], 1)
            yield info


def _buckets(counts: list[int]) -> list[tuple[str, float]]:
    return list(zip(BUCKETS, accumulate(counts), strict=True))
