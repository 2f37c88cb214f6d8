"""Event counters of a member: plain integers, incremented where the event happens and exported by `metrics`."""

from __future__ import annotations

from cluster.runtime.net.handshake import KINDS


class Counters:
    __slots__ = (
        "accepted", "bytes_received", "bytes_sent", "closed_silent", "closed_unsent", "dialed", "ejected",
        "frames_received", "frames_sent", "handshakes_failed", "opened", "replaced", "writes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.accepted = 0  # incoming connections
        self.dialed = 0  # outgoing connection attempts
        self.opened = 0  # authenticated connections
        self.replaced = 0  # authenticated connections that replaced an older one
        self.handshakes_failed = dict.fromkeys(KINDS, 0)
        self.ejected = 0  # authenticated peers cut off for an invalid frame
        self.closed_unsent = 0  # connections closed because the peer stopped reading
        self.closed_silent = 0  # connections closed because nothing arrived
        self.bytes_received = 0
        self.bytes_sent = 0
        self.frames_received = 0
        self.frames_sent = 0
        self.writes = 0  # write calls that carried frames_sent
