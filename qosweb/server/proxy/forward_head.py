"""Cached meaning of request heads that go to upstream servers: such a head is neither parsed nor classified again.

Only heads without a body, a ticket or an upgrade get here, and only if the head alone decides the class. Admission, the
look-up of a file and the choice of the server happen for every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qosweb.server.connection.fast_path import PlainFacts
from qosweb.server.request.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.admission import AdmissionControl, ClassAccount
    from qosweb.http.hops import OutgoingFields
    from qosweb.http.request_heads import RequestHead
    from qosweb.http.targets import RequestTarget


class ForwardHead(NamedTuple):
    """What the stages before admission found out about a head."""

    head: RequestHead
    host: str
    target: RequestTarget
    key: str
    account: ClassAccount
    outgoing: OutgoingFields


def read_forward_head(exchange: Exchange, admission: AdmissionControl) -> ForwardHead | None:
    """The meaning of the head of ``exchange``, which is being forwarded; None if it has to be parsed every time."""
    head = exchange.head
    if (
        exchange.has_body
        or head.upgrades
        or not head.is_http_1_1
        or exchange.ticket is not None
        or exchange.target is None
        or exchange.outgoing is None
        or admission.needs_file
    ):
        return None
    account = admission.classify_head(PlainFacts(head))
    if account is None or account is not exchange.account:
        return None
    return ForwardHead(head, exchange.host, exchange.target, exchange.key, account, exchange.outgoing)


def exchange_of(
    known: ForwardHead, client: str, proxy: str, now: float, stage: int, resume: Callable[[Exchange], None]
) -> Exchange:
    """A request with this head, which continues at ``stage``."""
    exchange = Exchange(known.head, has_body=False, client=client, arrived=now, started=now, resume=resume)
    exchange.proxy = proxy
    exchange.host, exchange.target, exchange.key = known.host, known.target, known.key
    exchange.account = known.account
    exchange.outgoing = known.outgoing
    exchange.is_recorded = True  # nothing of it is: see `Classifier.class_of_head`
    exchange.stage = stage
    if known.head.method == "HEAD":
        exchange.expected_size = 0
    return exchange
