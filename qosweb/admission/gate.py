"""The gate: whether a request may start now, and how fast its answer goes.

It stands between finding a page and answering with it. ``start`` says yes or no to a plain request at once, which costs
the fast path neither a task nor a future: a yes is also its end. No leaves the request to the stages, where ``admit``
asks again, with all that is known of it, and may give it a channel (``rate_bps`` of the exchange): its answer is then
paced. ``admit`` may answer WAITING, and the exchange is resumed. ``finish`` follows when the exchange is over.
Neighbours: ``qos_gate`` has the gate that keeps promises; this is the one of a node without a specification.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qosweb.server.accesslog.recorder import ClassAccount
    from qosweb.server.proxy.forward import ForwardTarget
    from qosweb.server.request.answers import Answer
    from qosweb.server.request.exchange import Exchange, Waiting


class Gate(Protocol):
    @property
    def in_service(self) -> int: ...
    def start(self, account: ClassAccount) -> bool: ...
    def admit(self, exchange: Exchange, account: ClassAccount) -> Answer | ForwardTarget | Waiting | None: ...
    def finish(self, exchange: Exchange, size: int) -> None: ...


class OpenGate:
    """Lets everything in and counts who is inside."""

    __slots__ = ("in_service",)

    def __init__(self) -> None:
        self.in_service = 0

    def start(self, account: ClassAccount) -> bool:  # noqa: ARG002
        return True

    def admit(self, exchange: Exchange, account: ClassAccount) -> None:  # noqa: ARG002
        self.in_service += 1

    def finish(self, exchange: Exchange, size: int) -> None:  # noqa: ARG002
        self.in_service -= exchange.admitted
