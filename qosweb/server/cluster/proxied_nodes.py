"""Warns of cluster nodes whose connections have to begin with a PROXY header: nodes forward requests without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.server.admin.browser_guard import host_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cluster.names import ProcessId
    from qosweb.engine.replicated.pipes import Pipe
    from qosweb.http.forwarded import TrustedNetworks


class ProxiedNodes:
    def __init__(self, trusted: TrustedNetworks, log_message: Callable[[str], None]) -> None:
        """``trusted``: the addresses that send a PROXY header; if there are none, all do."""
        self._trusted = trusted
        self._log_message = log_message
        self._known: set[str] = set()

    def check(self, me: ProcessId, pipes: Mapping[ProcessId, Pipe]) -> None:
        """Warn once of each node."""
        for pid, pipe in pipes.items():
            host = host_name(pipe.url.partition("://")[2]) or ""
            if pid == me or not host or host in self._known or (self._trusted and host not in self._trusted):
                continue
            self._known.add(host)
            why = "its address is within --trust-proxy" if self._trusted else "--trust-proxy names no proxies"
            self._log_message(
                f"requests that node {pid.name} ({host}) forwards here are refused, because they come without a PROXY "
                f"header (--proxy-protocol) and {why}: name the proxies alone with --trust-proxy"
            )
