"""Nodes within the networks of the proxies are named once: without a PROXY header their requests are refused."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from cluster.names import ProcessId
from qosweb.engine.replicated.pipes import Pipe
from qosweb.http.forwarded import TrustedNetworks
from qosweb.server.cluster.proxied_nodes import ProxiedNodes

URLS = {
    "a": "http://10.0.0.1",
    "b": "http://10.0.0.2:80",
    "c": "http://[fd00::1]:80",
    "d": "http://site.example",
    "e": "",
}


@pytest.mark.parametrize(
    ("networks", "named"),
    [(["10.0.0.0/24"], ["b"]), (["192.0.2.0/24"], []), (["10.0.0.2", "fd00::/64"], ["b", "c"]), ([], ["b", "c", "d"])],
)
def test_nodes_among_the_proxies_are_named_once(networks: list[str], named: list[str]) -> None:
    messages: list[str] = []
    pipes = {}
    for name, url in URLS.items():
        pipes[ProcessId(name)] = Pipe()
        pipes[ProcessId(name)].url = url
    monitor = ProxiedNodes(TrustedNetworks(map(ip_network, networks)), messages.append)
    for _ in range(2):
        monitor.check(ProcessId("a"), pipes)
    assert [message.split()[3] for message in messages] == named
