"""What a member counts: plain integers, added where it happens and shown by `metrics`."""

from __future__ import annotations

from cluster.runtime.net.handshake import KINDS


class Counters:
    __slots__ = (
        "accepted", "bytes_received", "bytes_sent", "closed_silent", "closed_unsent", "dialed", "ejected",
        "frames_received", "frames_sent", "handshakes_failed", "opened", "replaced", "writes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.accepted = 0  # connections that somebody made to us
        self.dialed = 0  # attempts to make one
        self.opened = 0  # connections to peers that proved themselves
        self.replaced = 0  # of these, how many took the place of another one
        self.handshakes_failed = dict.fromkeys(KINDS, 0)
        self.ejected = 0  # peers that proved themselves and then sent what is no frame
        self.closed_unsent = 0  # connections closed because the peer took nothing
        self.closed_silent = 0  # because nothing arrived
        self.bytes_received = 0
        self.bytes_sent = 0
        self.frames_received = 0
        self.frames_sent = 0
        self.writes = 0  # calls of the system that frames_sent were put into
