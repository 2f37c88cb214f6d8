"""State that a process keeps for one peer of its report streams: I_ij, its position in each log, and its window."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cluster.reports.messages import ForwardedWindow

if TYPE_CHECKING:
    from cluster.reports.messages import HeldNumbers, Origin, OwnWindow


class PeerPosition:
    """How far one peer is in the log of one origin."""

    __slots__ = ("acknowledged", "in_flight", "sent")

    def __init__(self, number: int) -> None:
        self.acknowledged = number  # m is in I_ij: the peer told that it holds all numbers up to this one
        self.sent = number  # windows up to this number were sent
        self.in_flight: deque[int] = deque()  # numbers of the reports sent and not acknowledged

    def acknowledge(self, number: int) -> None:
        self.acknowledged = max(self.acknowledged, number)
        self.sent = max(self.sent, number)  # another member may have forwarded more
        while self.in_flight and self.in_flight[0] <= number:
            self.in_flight.popleft()


class PeerState:
    """One peer, connected or not."""

    __slots__ = ("connected", "early", "greeted", "incoming", "owes_ack", "owes_held", "positions", "taken",
                 "unacked_bytes", "unacked_len")  # fmt: skip

    def __init__(self) -> None:
        self.connected = False
        self.owes_held = False  # the peer needs our HeldNumbers frame
        self.greeted = False  # its HeldNumbers frame for our view came on this stream: windows may pass both ways
        self.early: HeldNumbers | None = None  # its HeldNumbers frame for a view that we are not in yet
        self.positions: dict[Origin, PeerPosition] = {}  # of the origins whose reports we send to it
        self.incoming: deque[tuple[Origin, OwnWindow | ForwardedWindow]] = deque()  # I_ij without Q_i: not taken yet
        self.taken = 0  # number of reports taken of the first incoming window
        self.owes_ack: dict[Origin, int] = {}  # acknowledgements to send
        self.unacked_len = 0  # own reports in the log that the peer has not acknowledged
        self.unacked_bytes = 0

    @property
    def in_flight_len(self) -> int:
        return sum(len(position.in_flight) for position in self.positions.values())

    def keep_own_windows(self) -> None:
        """Drops forwarded windows that were not taken: in the next view they are sent again, if need be."""
        if self.incoming and isinstance(self.incoming[0][1], ForwardedWindow):
            self.taken = 0
        self.incoming = deque(each for each in self.incoming if not isinstance(each[1], ForwardedWindow))

    def reset_stream(self, *, connected: bool) -> None:
        """A stream began or ended: what was in flight is lost."""
        self.connected = self.owes_held = connected
        self.greeted = False
        self.early = None
        self.incoming.clear()
        self.taken = 0
        self.owes_ack.clear()
