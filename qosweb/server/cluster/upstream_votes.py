"""Votes on upstream servers: reports this node's evidence of their health to the cluster, and follows the count.

The rule is that of `qosweb.engine.replicated.upstreams`. A server of the scope "node" has no other voters. A server
that this node found faulty itself is out by its own rules, whatever the others say.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from qosweb.engine.replicated.upstreams import UpstreamReport, Vote, disagreements, outs_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from qosweb.admission import AdmissionControl
    from qosweb.server.proxy.upstream_server import UpstreamServer


class UpstreamVotes:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        servers: Sequence[UpstreamServer],
        admission: AdmissionControl,
        log_message: Callable[[str], None],
    ) -> None:
        """``log_message`` prints a line for the operator."""
        self.disagreements: list[str] = []  # between the tables of the nodes
        self._loop = loop
        self._servers = servers
        self._admission = admission
        self._log_message = log_message
        self._counts_soon = False

    def report(self) -> None:
        """Report the servers of this node and its votes, if they have changed."""
        engine, driver = self._admission.engine, self._admission.driver
        if engine is None or driver is None or not self._servers:
            return
        now = perf_counter()
        upstreams = [_report_of(one, now) for one in self._servers]
        if upstreams != engine.upstreams:
            engine.report_upstreams(upstreams)
            driver.poke()

    def count_soon(self) -> None:
        """Count the votes at the end of this turn of the event loop."""
        if not self._counts_soon:
            self._counts_soon = True
            self._loop.call_soon(self._count)

    def _count(self) -> None:
        self._counts_soon = False
        engine = self._admission.engine
        if engine is None:
            return
        pipes, me = engine.machine.pipes, engine.me
        own = {one.name: one.vote for one in pipes[me].upstreams} if me in pipes else {}
        outs, now = outs_of(pipes, me), perf_counter()
        for server in self._servers:
            held = own.get(server.name, Vote.OUT) is not Vote.OUT
            server.follow_votes(now, outs.get(server.name, "") if held else "")
        before, self.disagreements = self.disagreements, disagreements(pipes)
        for text in self.disagreements:
            if text not in before:
                self._log_message(f"the nodes' tables of upstream servers disagree: {text}")
        if before and not self.disagreements:
            self._log_message("the nodes' tables of upstream servers agree again")


def _report_of(server: UpstreamServer, now: float) -> UpstreamReport:
    settings, vote = server.settings, server.health.vote(now)
    return UpstreamReport(
        name=server.name,
        url=settings.url,
        is_shared=settings.scope == "cluster",
        weight=settings.weight,
        slots=server.slots,
        hosts=settings.hosts,
        paths=settings.paths,
        vote=vote,
        reason=server.health.reason if vote is Vote.OUT else "",
    )
