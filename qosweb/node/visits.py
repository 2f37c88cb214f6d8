"""Requests that go to another node of the cluster, and those that come from one, with a ticket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.node.answers import Answer, explain

if TYPE_CHECKING:
    from qosweb.engine.requests import GoTo
    from qosweb.node.exchange import Exchange
    from qosweb.node.ledger import ClassAccount


class Visits:
    def send_there(self, exchange: Exchange, decision: GoTo, account: ClassAccount) -> Answer:
        """Answer a request that was granted a channel elsewhere."""
        return explain(307, "Another node has room.", [("Location", decision.url + exchange.message.path)])
