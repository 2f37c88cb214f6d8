"""State that a process keeps for one peer of its report streams: the peer's position in each log, and its window."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.reports.messages import ForwardedWindow, Greeting, Origin, OwnWindow


class PeerPosition:
    """How far one peer is in the log of one origin."""

    __slots__ = ("acknowledged", "end", "in_flight", "sent")

    def __init__(self, number: int, end: int | None = None) -> None:
        self.acknowledged = number  # the peer has all numbers up to this one
        self.sent = number  # windows up to this number were sent
        self.end = end  # the last number to send, if the log is forwarded
        self.in_flight: deque[int] = deque()  # numbers of the reports sent and not acknowledged

    def acknowledge(self, number: int) -> None:
        self.acknowledged = max(self.acknowledged, number)
        self.sent = max(self.sent, number)  # another member may have forwarded more
        while self.in_flight and self.in_flight[0] <= number:
            self.in_flight.popleft()


class PeerState:
    """One peer, connected or not."""

    __slots__ = ("confirmed", "connected", "greeted", "greeting", "incoming", "owes_ack", "owes_greeting", "positions",
                 "staged", "staged_len", "taken", "unacked_bytes", "unacked_len")  # fmt: skip

    def __init__(self) -> None:
        self.connected = False
        self.owes_greeting = False  # the peer needs our greeting for the present view
        self.greeting: Greeting | None = None  # the last one that came on this stream, perhaps for a later view
        self.greeted = False  # it is for our view: windows may pass both ways
        self.confirmed = 0  # m is in I_ij: own reports that the peer acknowledged in this view
        self.positions: dict[Origin, PeerPosition] = {}  # of the origins whose reports we send to it
        self.staged: dict[Origin, list[OwnWindow | ForwardedWindow]] = {}  # to be taken all at once
        self.staged_len = 0  # reports in `staged`
        self.incoming: deque[tuple[Origin, OwnWindow | ForwardedWindow]] = deque()  # I_ij without Q_i: not taken yet
        self.taken = 0  # number of reports taken of the first incoming window
        self.owes_ack: dict[Origin, int] = {}  # acknowledgements to send
        self.unacked_len = 0  # own reports in the log that the peer has not acknowledged
        self.unacked_bytes = 0

    @property
    def in_flight_len(self) -> int:
        return sum(len(position.in_flight) for position in self.positions.values())

    def restart(self, *, owes_greeting: bool) -> None:
        """A stream or a view begins: reports in flight count as lost and are sent again."""
        self.owes_greeting = owes_greeting
        self.greeted = False
        self.positions.clear()
        self.staged.clear()
        self.staged_len = 0
        self.incoming.clear()
        self.taken = 0
        self.owes_ack.clear()
