"""Requests that go to another node of the cluster, and those that come from one, with a ticket.

The client is sent with 307 and a ticket behind the target, which holds a channel there; or, with
``set redirect = forward``, the node asks for the page there with that ticket, and passes the answer on. What was passed
on once is not passed on again: where its ticket came too late, its client is sent. A ticket that is no good is no
reason to refuse the request: it is one like any other then, and waits for its turn. Both are counted.

The request has one name in the logs of both nodes: the first gives it, the ticket carries it. Only a good ticket does:
with any other a client could write lines under the name of somebody else's request.
Neighbours: `qosweb.engine.local.tickets`; `qos_gate` asks.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from qosweb.engine.local.expected_redirects import VISIT_MS
from qosweb.engine.local.tickets import TicketOffice, TicketVerdict, with_ticket
from qosweb.server.proxy.forward import ForwardTarget
from qosweb.server.request.answers import Answer, explain

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId
    from qosweb.engine.engine import Engine
    from qosweb.engine.local.request_ids import RequestId
    from qosweb.engine.local.requests import GoTo
    from qosweb.server.accesslog.recorder import ClassAccount
    from qosweb.server.request.exchange import Exchange


WORD_EVERY_MS = 10_000  # bad tickets can be had for nothing: they do not fill the log


class Redirects:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._next_word_ms: dict[TicketVerdict, int] = {}
        self.verdicts: Counter[str] = Counter()  # on the tickets that came
        self._engine: Engine | None = None
        self._key = b""
        self._me: ProcessId | None = None
        self._office: TicketOffice | None = None
        self._next_rid: Callable[[], RequestId] | None = None

    def open(self, engine: Engine, cluster_key: bytes, next_rid: Callable[[], RequestId]) -> None:
        """The node is a member of a cluster. ``next_rid`` names requests for the log."""
        self._engine = engine
        self._next_rid = next_rid
        self._key = cluster_key
        self.renamed()

    def renamed(self) -> None:
        """The node is another process to its cluster."""
        if self._engine is not None and self._engine.me != self._me:
            self._me = self._engine.me
            self._office = TicketOffice(self._key, self._me)

    def send_there(self, exchange: Exchange, decision: GoTo, account: ClassAccount) -> Answer | ForwardTarget:
        """A request that was granted a channel elsewhere: its client goes there, or this node asks for it."""
        assert self._office is not None
        assert self._engine is not None
        assert self._next_rid is not None
        assert exchange.request is not None
        assert exchange.target is not None
        target = exchange.target.escaped_path + (f"?{exchange.target.query}" if exchange.target.query else "")
        forwards = self._engine.machine.law.forwards and exchange.ticket_text is None
        authority = exchange.host if forwards else decision.url.partition("://")[2]
        until_ms = self._engine.time_ms + VISIT_MS
        exchange.rid = rid = exchange.rid or self._next_rid()
        number, left_ms = exchange.request.number, decision.left_ms
        text = self._office.issue(number, account.number, decision.node, authority, target, until_ms, left_ms, rid)
        if forwards:
            exchange.outcome = "forwarded"
            return ForwardTarget(decision.url, with_ticket(target, text), decision.node.name)
        exchange.outcome = "redirected"
        fields = [
            ("Location", decision.url + with_ticket(target, text)),
            ("Cache-Control", "no-store"),
            ("QoS-Decision", f"redirected; node={decision.node.name}"),
        ]
        return explain(307, f"A channel is held for this request at {decision.node.name}.", fields)

    def look_at_ticket(self, exchange: Exchange) -> None:
        """Take the ticket of a request that brings a good one."""
        if exchange.ticket_text is None or exchange.target is None:
            return
        if self._office is None or self._engine is None:
            self.verdicts[TicketVerdict.FORGED.value] += 1
            return
        target = exchange.target.escaped_path + (f"?{exchange.target.query}" if exchange.target.query else "")
        verdict, ticket = self._office.check(exchange.ticket_text, exchange.host, target, self._engine.time_ms)
        self.verdicts[verdict.value] += 1
        if verdict is TicketVerdict.GOOD and ticket is not None:
            exchange.ticket, exchange.rid = ticket, ticket.rid
        elif self._engine.now_ms >= self._next_word_ms.get(verdict, self._engine.now_ms):
            self._next_word_ms[verdict] = self._engine.now_ms + WORD_EVERY_MS
            self._say(
                f"a ticket from {exchange.client} is {verdict.value}; its request waits for its turn like any other "
                f"(so far {', '.join(f'{count} {what}' for what, count in self.verdicts.items())})"
            )
