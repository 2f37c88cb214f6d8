"""Flow control: heartbeat, window and retention, and how producers and consumers change them. Pure.

Paper: Freier and Marzullo, TR 90-1141, section 4. A producer drives the parameters towards speed, consumers towards
reliability. Here the feedback is the NAKs that a producer gets:

    a heartbeat with NAKs, and none of the last SETTLE heartbeats lowered the window:  window := 3/4 window
    a heartbeat without NAKs whose window was used up:                                 window := 17/16 window + 1

Feedback settles in three time constants, hence SETTLE = 3. Retention follows the window, so that the packets to keep
stay within the same bound: retention = commit_max / window, at least 3, so that a second NAK can be answered, plus the
heartbeats for which consumers dally before a NAK.
"""

from __future__ import annotations

from cluster.bulk.packets import Parameters

SETTLE = 3
RETENTION_MIN = 3


class FlowControl:
    """The parameters of one producer.

    `window_min` is the sender's choice: below it a slow consumer is not waited for, falls behind and joins again.
    """

    __slots__ = ("_since_cut", "commit_max", "dally", "heartbeat_ms", "naks", "retention_max", "used", "window",
                 "window_max", "window_min")  # fmt: skip

    def __init__(
        self,
        heartbeat_ms: int = 20,
        window: int = 64,
        window_min: int = 1,
        window_max: int = 4096,
        retention_max: int = 64,
        commit_max: int = 16_384,
        dally: int = 2,
    ) -> None:
        self.heartbeat_ms = heartbeat_ms
        self.window = window
        self.window_min = window_min
        self.window_max = window_max
        self.retention_max = retention_max
        self.commit_max = commit_max  # packets in retention, at most
        self.dally = dally  # heartbeats before a NAK, at most (f in section 4)
        self.naks = 0  # NAKs in this heartbeat
        self.used = 0  # data packets sent in this heartbeat
        self._since_cut = SETTLE

    @property
    def heartbeat_s(self) -> float:
        return self.heartbeat_ms / 1e3

    @property
    def retention(self) -> int:
        return min(self.retention_max, max(self.commit_max // self.window, RETENTION_MIN + self.dally))

    @property
    def parameters(self) -> Parameters:
        return Parameters(self.heartbeat_ms, self.window, self.retention)

    def on_heartbeat(self) -> None:
        """A heartbeat ended: adapts the window to what happened in it."""
        self._since_cut += 1
        if self.naks:
            if self._since_cut > SETTLE:
                self.window = max(self.window_min, self.window * 3 // 4)
                self._since_cut = 0
        elif self.used >= self.window:
            self.window = min(self.window_max, self.window + self.window // 16 + 1)
        self.naks = self.used = 0
