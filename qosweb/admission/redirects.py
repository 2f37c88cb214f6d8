"""Redirects: sends requests to other nodes of the cluster, and checks the tickets of requests that come from them.

A redirect is a 307 whose Location has a ticket as a query parameter; the ticket holds a channel at the other node. With
``set redirect = forward`` this node sends the request to the other node itself, with a ticket that also has the
client's address. A request is forwarded at most once: if its ticket came too late, its client is redirected. A request
with a bad ticket is not denied: it is queued like any other. Tickets are counted by verdict.

A request has one id in the logs of both nodes: the first node assigns it, the ticket carries it. The id in a bad ticket
is ignored: a client could otherwise write log lines under the id of another request.
Neighbours: `qosweb.engine.local.tickets`; `gate` uses this module.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from qosweb.admission.outcomes import Forward, Redirect
from qosweb.engine.local.expected_redirects import VISIT_MS
from qosweb.engine.local.tickets import TicketOffice, TicketVerdict, with_ticket

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId
    from qosweb.admission.class_accounts import ClassAccount
    from qosweb.admission.facts import RequestFacts
    from qosweb.engine.engine import Engine
    from qosweb.engine.local.request_ids import RequestId
    from qosweb.engine.local.requests import GoTo
    from qosweb.engine.local.tickets import Ticket

LOG_EVERY_MS = 10_000  # bad tickets cost a client nothing: their messages must not fill the log


class Redirects:
    """Issues and checks tickets. `log_message` prints a line for the operator."""

    def __init__(self, log_message: Callable[[str], None]) -> None:
        self.verdicts: Counter[str] = Counter()  # on the tickets of clients
        self._log_message = log_message
        self._next_log_ms: dict[TicketVerdict, int] = {}
        self._engine: Engine | None = None
        self._key = b""
        self._me: ProcessId | None = None
        self._office: TicketOffice | None = None
        self._next_rid: Callable[[], RequestId] | None = None

    def open(self, engine: Engine, cluster_key: bytes, next_rid: Callable[[], RequestId]) -> None:
        """Allow redirects: the node is a member of a cluster. `next_rid` makes request ids."""
        self._engine = engine
        self._next_rid = next_rid
        self._key = cluster_key
        self.renamed()

    def renamed(self) -> None:
        """Follow a change of the node's process id in its cluster."""
        if self._engine is not None and self._engine.me != self._me:
            self._me = self._engine.me
            self._office = TicketOffice(self._key, self._me)

    def send(
        self, facts: RequestFacts, number: int, account: ClassAccount, rid: RequestId | None, decision: GoTo
    ) -> Redirect | Forward:
        """Redirect or forward a request to the node that granted it a channel. `number` is its number in the engine."""
        assert self._office is not None
        assert self._engine is not None
        assert self._next_rid is not None
        target = facts.origin_form
        forwards = self._engine.machine.policy.forwards and facts.ticket is None
        authority = facts.host if forwards else decision.url.partition("://")[2]
        until_ms = self._engine.time_ms + VISIT_MS
        rid = rid or self._next_rid()
        text = self._office.issue(
            number,
            account.number,
            decision.node,
            authority,
            target,
            until_ms,
            decision.left_ms,
            rid,
            facts.client if forwards else "",
        )
        node = decision.node.name
        if forwards:
            return Forward(account, rid, decision.url, with_ticket(target, text), node)
        fields = (
            ("Location", decision.url + with_ticket(target, text)),
            ("Cache-Control", "no-store"),
            ("QoS-Decision", f"redirected; node={node}"),
        )
        return Redirect(account, rid, fields, f"A channel is held for this request at {node}.")

    def forwarded_client(self, facts: RequestFacts) -> str:
        """The client's address if another node of the cluster forwards the request, as its ticket proves; else empty.

        The request keeps its ticket.
        """
        if facts.ticket is None or self._office is None or self._engine is None:
            return ""
        return self._office.client_in(facts.ticket, facts.host, facts.origin_form, self._engine.time_ms)

    def check_ticket(self, facts: RequestFacts) -> Ticket | None:
        """The ticket of the request if it is good; else None. A ticket is good once."""
        if facts.ticket is None or facts.path is None:
            return None
        if self._office is None or self._engine is None:
            self.verdicts[TicketVerdict.FORGED.value] += 1
            return None
        verdict, ticket = self._office.check(facts.ticket, facts.host, facts.origin_form, self._engine.time_ms)
        self.verdicts[verdict.value] += 1
        if verdict is TicketVerdict.GOOD:
            return ticket
        if self._engine.now_ms >= self._next_log_ms.get(verdict, self._engine.now_ms):
            self._next_log_ms[verdict] = self._engine.now_ms + LOG_EVERY_MS
            self._log_message(
                f"a ticket from {facts.client} is {verdict.value}; its request is queued like any other "
                f"(tickets so far: {', '.join(f'{count} {what}' for what, count in self.verdicts.items())})"
            )
        return None
