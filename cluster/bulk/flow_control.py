"""Flow control: heartbeat, window and retention, and how producers and consumers change them. Pure.

Paper: Freier and Marzullo, TR 90-1141, section 4. A producer drives the parameters towards speed, consumers towards
reliability. A consumer measures what it receives (`ReceptionMeter`) and asks, in the parameters of its NAKs and
reports, for a smaller window or a longer heartbeat. A producer does what the most demanding consumer asks:

    a window was asked for, and none of the last SETTLE heartbeats lowered it:  window := that window
    the window was used up, no consumer asked, the socket took everything:      window := 5/4 window + 1
    the same once a window was asked for, up to that window:                    window := 17/16 window + 1
    the same above that window:                                                 window := 129/128 window + 1
    a longer heartbeat was asked for:                                           heartbeat := twice as long
    none was asked for in RELAX heartbeats:                                     heartbeat := half as long

A longer heartbeat means a larger step, so that the rate grows as fast. Feedback settles in three time constants, hence
SETTLE = 3. The window follows the heartbeat, so that the rate stays the same. Retention follows the window, so that the
packets to keep stay within the same bound: retention = commit_max / window, at least 3, so that a second NAK can be
answered, plus the heartbeats for which consumers dally before a NAK.
Departs: a consumer asks for a smaller window only if it loses more than LOSS_MAX of the packets. The loss of single
packets, which NAKs repair, does not slow the transfer.
"""

from __future__ import annotations

from cluster.bulk.packets import WINDOW_ANY, Parameters

SETTLE = 3
RELAX = 100
RETENTION_MIN = 3
LOSS_MAX = 1 / 12
SAMPLE_MIN = 512  # packets of which the loss is measured: of fewer, 5 % may look like more than LOSS_MAX
HEARTBEAT_MS_MAX = 1000
NAK_BEATS = 3  # heartbeats after which a NAK is repeated, at least
FIRST_BEATS = 12  # the same, as long as no repair was measured
WAIT_S_MAX = 2.0  # the same, at most
DOUBLINGS_MAX = 3  # of that time while nothing arrives
REPAIR_BEATS = 4.0  # a repair that takes longer than this, after its NAK, needs a longer heartbeat


class FlowControl:
    """The parameters of one producer.

    `window_min` is the sender's choice: below it a slow consumer is not waited for, falls behind and joins again.
    """

    __slots__ = ("_asked_heartbeat_ms", "_asked_window", "_relaxed", "_since_cut", "_threshold", "commit_max", "dally",
                 "heartbeat_ms", "heartbeat_ms_min", "is_blocked", "retention_max", "used", "was_blocked", "window",
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
        self.heartbeat_ms = self.heartbeat_ms_min = heartbeat_ms
        self.window = window
        self.window_min = window_min
        self.window_max = window_max
        self.retention_max = retention_max
        self.commit_max = commit_max  # packets in retention, at most
        self.dally = dally  # heartbeats before a NAK, at most (f in section 4)
        self.used = 0  # data packets sent in this heartbeat
        self.is_blocked = False  # the socket takes nothing now: set by the runtime
        self.was_blocked = False  # it was blocked in this heartbeat
        self._asked_window = WINDOW_ANY  # the smallest window that a consumer asked for in this heartbeat
        self._asked_heartbeat_ms = 0  # the longest heartbeat
        self._threshold = 0  # the window that was asked for last: above it the window grows slowly
        self._since_cut = SETTLE
        self._relaxed = 0  # heartbeats in which no consumer asked for a longer one

    @property
    def heartbeat_s(self) -> float:
        return self.heartbeat_ms / 1e3

    @property
    def retention(self) -> int:
        return min(self.retention_max, max(self.commit_max // self.window, RETENTION_MIN + self.dally))

    @property
    def parameters(self) -> Parameters:
        return Parameters(self.heartbeat_ms, self.window, self.retention)

    def ask(self, wish: Parameters) -> None:
        """A consumer asks for these parameters."""
        self._asked_window = min(self._asked_window, wish.window * self.heartbeat_ms // max(1, wish.heartbeat_ms))
        self._asked_heartbeat_ms = max(self._asked_heartbeat_ms, wish.heartbeat_ms)

    def on_heartbeat(self) -> None:
        """A heartbeat ended: adapts the parameters to the wishes of consumers and the use of the window."""
        self._since_cut += 1
        floor = min(self.window, self.window_min)
        if self._asked_window < self.window:
            if self._since_cut > SETTLE:
                self.window = self._threshold = max(floor, self._asked_window, self.window // 4, 1)
                self._since_cut = 0
        elif self.used >= self.window and not self.was_blocked:
            share = 4 if not self._threshold else 16 if self.window < self._threshold else 128
            share = share * self.heartbeat_ms_min // self.heartbeat_ms
            self.window = min(self.window_max, self.window + self.window // max(1, share) + 1)
        self._adapt_heartbeat()
        self._asked_window = WINDOW_ANY
        self._asked_heartbeat_ms = self.used = 0
        self.was_blocked = self.is_blocked

    def _adapt_heartbeat(self) -> None:
        self._relaxed += 1
        if self._asked_heartbeat_ms > self.heartbeat_ms:
            self._set_heartbeat(min(HEARTBEAT_MS_MAX, 2 * self.heartbeat_ms))
        elif self._relaxed > RELAX and self.heartbeat_ms > self.heartbeat_ms_min:
            self._set_heartbeat(max(self.heartbeat_ms_min, self.heartbeat_ms // 2))

    def _set_heartbeat(self, heartbeat_ms: int) -> None:
        self.window = max(1, min(self.window_max, self.window * heartbeat_ms // self.heartbeat_ms))
        self.heartbeat_ms = heartbeat_ms
        self._relaxed = 0


class ReceptionMeter:
    """What a consumer measures of one message, and the parameters that it asks its producer for.

    `repair_s` is the time from the first NAK for a packet to the packet, smoothed, and `answer_s` the same for packets
    that needed one NAK. The first is never too short, so that a producer that answers late is not asked too often.
    """

    __slots__ = ("_arrived", "_lost", "_probe", "_since", "_window", "answer_s", "repair_s")

    def __init__(self, now: float) -> None:
        self._since = now
        self._arrived = 0
        self._lost = 0  # packets that others overtook
        self._probe: tuple[int, float, float] | None = None  # a packet, when it was asked for, and when to ask again
        self._window = WINDOW_ANY
        self.repair_s = 0.0
        self.answer_s = 0.0

    def on_packet(self, now: float, packet: int) -> None:
        self._arrived += 1
        if self._probe is not None and self._probe[0] == packet:
            _, asked_at, again_at = self._probe
            self.repair_s = _smoothed(self.repair_s, now - asked_at)
            if now < again_at:
                self.answer_s = _smoothed(self.answer_s, now - asked_at)
            self._probe = None

    def on_lost(self, packets: int) -> None:
        """So many packets are missing more than before; less than none if one was only late."""
        self._lost += packets

    def on_nak(self, now: float, packet: int, again_at: float) -> None:
        """This packet is asked for, for the first time."""
        if self._probe is None:
            self._probe = (packet, now, again_at)

    def on_silence(self, now: float, again_at: float) -> None:
        """Nothing arrived since the last NAK. It was lost, or its receiver left: the next one counts."""
        if self._probe is not None:
            self._probe = (self._probe[0], now, again_at)

    def wait_s(self, heartbeat_s: float, unanswered: int) -> float:
        """The time after which to ask again, if the last `unanswered` NAKs brought nothing."""
        expected = 2 * self.repair_s if self.repair_s else FIRST_BEATS * heartbeat_s
        return min(WAIT_S_MAX, max(NAK_BEATS * heartbeat_s, expected) * (1 << min(unanswered, DOUBLINGS_MAX)))

    def wish(self, now: float, parameters: Parameters) -> Parameters:
        """The parameters to ask for, given those of the producer."""
        beat = parameters.heartbeat_ms / 1e3
        elapsed = now - self._since
        if elapsed >= SETTLE * beat and self._arrived + self._lost >= SAMPLE_MIN:
            is_overrun = self._lost > LOSS_MAX * (self._arrived + self._lost)
            self._window = max(1, int(self._arrived * beat / elapsed)) if is_overrun else WINDOW_ANY
            self._since, self._arrived, self._lost = now, 0, 0
        is_late = self.answer_s > REPAIR_BEATS * beat
        heartbeat_ms = min(HEARTBEAT_MS_MAX, 2 * parameters.heartbeat_ms) if is_late else parameters.heartbeat_ms
        window = min(WINDOW_ANY, self._window * heartbeat_ms // parameters.heartbeat_ms)
        return Parameters(heartbeat_ms, window, parameters.retention)


def _smoothed(mean: float, sample: float) -> float:
    return mean + (sample - mean) / 4 if mean else sample
