"""Names of the outcomes of a request, for the access log and the field QoS-Decision. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qosweb.admission import ClassAccount
    from qosweb.server.request.answers import Answer
    from qosweb.server.request.exchange import Exchange

CLIENT_SHARE = "client_share"  # reason of a denial: the client has its share of a bounded resource


def decision_of(exchange: Exchange, answer: Answer) -> str:
    if exchange.outcome:
        return exchange.outcome
    if answer.status == 429:  # not by admission control: CLIENT_SHARE
        return "denied"
    return "failed" if answer.status >= 500 or answer.must_close else "served"


def decision_lines(account: ClassAccount, exchange: Exchange, answer: Answer) -> bytes:
    """The fields QoS-Class and QoS-Decision that the connection adds to ``answer``."""
    if exchange.outcome:
        return account.header_line  # the answer names the decision
    decision = decision_of(exchange, answer)
    if decision == "denied":
        return denied_lines(account, CLIENT_SHARE)
    return account.failed_line if decision == "failed" else account.served_line


def denied_lines(account: ClassAccount, reason: str) -> bytes:
    """The same for a request that was denied outside admission control."""
    line = account.header_line
    return line + b"QoS-Decision: denied; reason=%b\r\n" % reason.encode() if line else b""
