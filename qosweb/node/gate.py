"""The gate: whether a request may start now, and how fast its answer goes.

It stands between finding a page and answering with it. ``start`` says yes or no at once, which costs the fast path
neither a task nor a future; after a yes ``finish`` must follow. No means not now. The fast path leaves the request
to the stages, where ``admit`` asks again, with all that is known of it, and may give it a channel (``rate_bps`` of the
exchange): its answer is then paced. ``admit`` may answer WAITING and be resumed, as ``find_page`` does; a gate with a
queue will.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qosweb.node.channels import Channels
    from qosweb.node.exchange import Exchange
    from qosweb.node.ledger import ClassAccount

HEAD_BYTES = 256  # what a request costs beside its body, as long as nobody measures it: the head of its answer


class OpenGate:
    """Lets everything in and counts who is inside."""

    __slots__ = ("in_service",)

    def __init__(self) -> None:
        self.in_service = 0

    def start(self) -> bool:
        self.in_service += 1
        return True

    def admit(self, exchange: Exchange, account: ClassAccount) -> bool:  # noqa: ARG002
        return self.start()

    def finish(self) -> None:
        self.in_service -= 1


class PacedGate(OpenGate):
    """Lets everything in and gives each request a channel of its class's size, however many there are."""

    __slots__ = ("_channels",)

    def __init__(self, channels: Channels) -> None:
        super().__init__()
        self._channels = channels

    def start(self) -> bool:
        return False  # the fast path knows no pace

    def admit(self, exchange: Exchange, account: ClassAccount) -> bool:
        self.in_service += 1
        page = None if exchange.resource is None else exchange.resource.plain
        exchange.rate_bps = self._channels.rate_bps(account.name, 0 if page is None else page.size, exchange.started)
        exchange.fixed_bytes = HEAD_BYTES
        return True
