"""Line law: finds the rate to send at on a line of unknown capacity, so that the queue stands at the sender.

Idea (Bundler, EuroSys 2021): pace the sum of all connections, so that the queue moves from the line to us, where it can
be ordered. The rate is not below the capacity C but such that a small queue of TARGET_S stands in the line: while it
stands, the rate at which bytes are delivered *is* the capacity. With ``lam`` the delivered rate over a window of at
least two round trips and ``q`` the delay in the queue, the rate R follows, every TICK_S,

    R = lam (1 - loss) (1 + clip((TARGET_S - q) / H, -0.25, 0.05)),   H = 0.1 s + 2 base round trips

while there is a queue, and grows by 50 % per second, faster and faster, while there is none and R is what limits us.

States of the law:

    released  R is infinite: the line is not short, or its queue is not ours.
    holding   R follows the formula above.
    draining  R is half of lam for a moment: the queue of our own bytes vanishes, and the round trip shows its floor. A
              floor well above zero is the queue of others: release.

Evidence. ``q`` is the smaller of two estimates: the round trip above its base, and bytes in flight over ``lam`` above
the base. Single late ticks are no evidence: the median of three counts, and after a gap between ticks, when this
process stood still itself, R is held for a moment. The line is short when a queue stood for three ticks while the
connections waited for the network most of the time; connections that wait for their reader do not count. Much loss
without a queue is a policer. A queue that does not shrink although R fell by 30 % is not ours. After a release the law
waits for 3 s before it tries again, and longer each time, up to a minute. It also releases if nothing was acknowledged
for SILENT_S although responses wait: the rate would never change again.

TARGET_S is above the jitter of an event loop (it is CoDel's target). While responses are small it is half of that: a
class with n connections gets at most n responses in the time of the queue. H is above twice the loop's delay.
Pure: times and observations are arguments. Neighbours: `line_samples` makes the observations from TCP_INFO.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from math import inf
from typing import NamedTuple

TICK_S = 0.025
TARGET_S = 0.005
TARGET_MIN_S = 0.0025  # while responses are small
QUEUED_RESPONSES = 4  # that fit into a queue of TARGET_S, unless it would be shorter than TARGET_MIN_S
LOSS_MAX = 0.025
BUSY_MIN = 0.5
FULL_TICKS = 3
RATE_MIN = 20_000.0  # bytes per second
SILENT_S = 1.0  # without evidence, although we have bytes to send
QUIET_S = 10.0  # without backlog, after which the line is no longer held
DRAIN_FIRST_S = 1.0
DRAIN_EVERY_S = 10.0
AGAIN_MIN_S = 3.0
AGAIN_MAX_S = 60.0


class Line(NamedTuple):
    """Observations of one tick, over all connections that have bytes under way."""

    delivered: int  # bytes that were acknowledged since the last tick
    queue_s: float | None = None  # round trip above its base, median by bytes; None: nothing was acknowledged
    base_s: float = 0.0  # round trip without a queue
    in_flight: int = 0  # bytes
    busy: float = 0.0  # part of the time in which connections waited for the network
    sent: int = 0  # bytes, repeated ones included
    repeated: int = 0  # of them, without those that were not needed
    is_starved: bool = False  # we had bytes to send and no tokens
    is_blocked: bool = False  # a connection waited for the network, not for its reader
    in_kernel: int = 0  # bytes that the kernel has and that were not acknowledged


class LineState(Enum):
    RELEASED = "released"
    HOLDING = "holding"
    DRAINING = "draining"


class _Episode:
    """A time with a long queue, which ends in a release if the queue does not follow the rate."""

    __slots__ = ("began_at", "in_kernel", "lam", "longest_s", "since")

    def __init__(self, now: float, queue_s: float, lam: float, in_kernel: int) -> None:
        self.began_at = self.since = now
        self.longest_s = queue_s
        self.lam = lam
        self.in_kernel = in_kernel


class LineLaw:
    """Call `tick` about every TICK_S; then send at `rate`."""

    def __init__(self, most_bps: float = inf) -> None:
        """`most_bps`: the rate never exceeds it, except that it is infinite while released."""
        self.rate = inf  # bytes per second; infinite: released
        self._most_bps = most_bps
        self.state = LineState.RELEASED
        self.piece = 0.0  # mean bytes of what is sent at a time: a small response, or a part of a large one; 0: large
        self.queue_s = 0.0
        self.delivered_bps = 0.0  # lam
        self.releases = 0  # because the queue was not ours
        self._base_s = 0.0
        self._delivered = 0
        self._history: deque[tuple[float, int]] = deque()  # time, bytes delivered until then
        self._rates: deque[tuple[float, float]] = deque()  # lam of the last second
        self._queues: deque[float] = deque(maxlen=3)
        self._backlogs: deque[bool] = deque(maxlen=8)
        self._losses: deque[tuple[float, int, int]] = deque()
        self._sent = self._repeated = 0
        self._little_s: float | None = None  # queue by Little's law
        self._ticked_at = 0.0
        self._seen_at = 0.0  # when there was evidence, or nothing to send
        self._hold_until = 0.0
        self._again_at = 0.0
        self._again_s = AGAIN_MIN_S
        self._full_ticks = 0
        self._growth = 0.0
        self._episode: _Episode | None = None
        self._backlog_at = 0.0
        self._drain_at = 0.0
        self._drain: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)  # began, rate before, floor, last queue

    def tick(self, now: float, seen: Line) -> None:
        stood_still = now - self._ticked_at > 2 * TICK_S and self.state is not LineState.RELEASED
        self._ticked_at = now
        if stood_still:
            self._history.clear()
            self._hold_until = now + 0.05
        self._observe(now, seen)
        queue_s = self._estimate_queue(seen)
        if queue_s is not None or not seen.is_starved or stood_still:
            self._seen_at = now
        if self.state is LineState.RELEASED:
            self._detect(now, seen, queue_s)
        elif queue_s is not None and self.state is LineState.DRAINING:
            self._end_drain(now, queue_s)
        elif queue_s is not None and now > self._hold_until:
            self._follow(now, seen, self.queue_s)
        elif now - self._seen_at > SILENT_S:
            self._release(now, is_foreign=True)
        if self.state is not LineState.RELEASED:
            self.rate = min(max(self.rate, RATE_MIN), self._most_bps)

    # ---- evidence

    def _observe(self, now: float, seen: Line) -> None:
        self._delivered += seen.delivered
        if seen.queue_s is not None:
            self._base_s = seen.base_s
        self._history.append((now, self._delivered))
        window_s = max(0.1, 2 * (self._base_s + self.queue_s))
        history = self._history
        while len(history) > 2 and history[1][0] <= now - window_s:
            history.popleft()
        passed_s = history[-1][0] - history[0][0]
        self.delivered_bps = (history[-1][1] - history[0][1]) / passed_s if passed_s > 0 else 0.0
        self._rates.append((now, self.delivered_bps))
        while self._rates[0][0] < now - 1.0:
            self._rates.popleft()
        self._sent += seen.sent
        self._repeated += seen.repeated
        self._losses.append((now, self._sent, self._repeated))
        while self._losses[0][0] < now - max(0.5, 4 * window_s):
            self._losses.popleft()
        self._backlogs.append(seen.is_starved or seen.is_blocked)
        if seen.is_starved or seen.is_blocked:
            self._backlog_at = now

    @property
    def loss(self) -> float:
        """The recent part of bytes that were lost; 0 if too few were sent."""
        sent = self._sent - self._losses[0][1]
        return (self._repeated - self._losses[0][2]) / sent if sent > 100_000 else 0.0

    @property
    def _target_s(self) -> float:
        if not self.piece or not self.delivered_bps:
            return TARGET_S
        return min(TARGET_S, max(TARGET_MIN_S, QUEUED_RESPONSES * self.piece / self.delivered_bps))

    @property
    def _is_backlogged(self) -> bool:
        return 2 * sum(self._backlogs) >= len(self._backlogs)

    def _estimate_queue(self, seen: Line) -> float | None:
        """The queue now, by this tick alone. `queue_s` is the median of three."""
        if seen.queue_s is None or self.delivered_bps <= 0:
            return None
        little_s = seen.in_flight / self.delivered_bps - seen.base_s
        self._little_s = little_s if self._little_s is None else self._little_s + 0.3 * (little_s - self._little_s)
        queue_s = max(0.0, min(seen.queue_s, self._little_s))
        self._queues.append(queue_s)
        self.queue_s = sorted(self._queues)[(len(self._queues) - 1) // 2]
        return queue_s

    # ---- states

    def _detect(self, now: float, seen: Line, queue_s: float | None) -> None:
        """Hold the line once it is short."""
        is_short = queue_s is not None and (self.queue_s > TARGET_S or self.loss > LOSS_MAX) and seen.busy > BUSY_MIN
        self._full_ticks = self._full_ticks + 1 if is_short and now > self._again_at else 0
        if self._full_ticks >= FULL_TICKS:
            self.state, self.rate = LineState.HOLDING, self.delivered_bps
            self._growth, self._episode = 0.0, None
            self._backlog_at = now
            self._drain_at = now + DRAIN_FIRST_S

    def _release(self, now: float, *, is_foreign: bool) -> None:
        self.state, self.rate = LineState.RELEASED, inf
        self._full_ticks, self._episode = 0, None
        if is_foreign:
            self.releases += 1
            is_repeated = now - self._again_at < 2 * self._again_s + 5
            self._again_s = min(AGAIN_MAX_S, 2 * self._again_s) if is_repeated and self._again_at else AGAIN_MIN_S
            self._again_at = now + self._again_s

    def _end_drain(self, now: float, queue_s: float) -> None:
        began, rate, floor_s, last_s = self._drain
        floor_s = min(floor_s, queue_s)
        self._drain = began, rate, floor_s, queue_s
        stopped_falling = now - began > self._base_s + 3 * TICK_S and last_s - queue_s < 0.0005
        if not stopped_falling and now - began <= 0.3 + 2 * self._base_s:
            return
        self.state, self.rate = LineState.HOLDING, rate
        self._drain_at = now + DRAIN_EVERY_S
        self._hold_until = now + 0.1 + 2 * self._base_s
        self._growth = 0.0
        self._history.clear()
        self._queues.clear()
        if floor_s > 2 * TARGET_S:
            self._release(now, is_foreign=True)

    def _follow(self, now: float, seen: Line, queue_s: float) -> None:
        target_s = self._target_s
        # All requests of a closed loop may stand in the line's queue: none waits here until the rate is lower.
        stands_in_line = queue_s > TARGET_S and seen.busy > BUSY_MIN
        is_backlogged, lam = self._is_backlogged or stands_in_line, self.delivered_bps
        if stands_in_line:
            self._backlog_at = now
        if self.loss > LOSS_MAX and is_backlogged and queue_s < TARGET_S:  # a policer, or a very short buffer
            self._growth = 0.0
            self.rate = min(self.rate, 0.98 * max(rate for _, rate in self._rates))
        elif queue_s >= target_s / 2:
            self._growth = 0.0
            if is_backlogged:
                horizon_s = 0.1 + 2 * self._base_s
                change = min(0.05, max(-0.25, (target_s - queue_s) / horizon_s))
                wanted = lam * (1 - min(0.3, self.loss)) * (1 + change)
                self.rate = max(wanted, self.rate * (1 - min(0.25, 0.02 * queue_s / target_s)))
                if self._episode is not None:  # to go further down, release and find out anew
                    self.rate = max(self.rate, 0.5 * self._episode.lam)
        elif seen.is_starved:
            self._growth += TICK_S / max(0.1, self._base_s + 2 * TICK_S)
            known = 0.9 * max(rate for at, rate in self._rates if at > now - 0.6)
            step = TICK_S * min(4.0, 0.5 * 1.5 ** int(self._growth))
            self.rate = max(self.rate, lam, known) * (1 + step)
        if queue_s > 2 * TARGET_S and is_backlogged:
            self._watch_episode(now, queue_s, seen.in_kernel)
        else:
            self._episode = None
        if self.state is LineState.HOLDING and now - self._backlog_at > QUIET_S:
            self._release(now, is_foreign=False)
        is_small = target_s / 2 <= queue_s < 2 * TARGET_S
        if self.state is LineState.HOLDING and now > self._drain_at and is_small and is_backlogged:
            self._drain = now, lam, inf, inf
            self.state, self.rate = LineState.DRAINING, lam / 2

    def _watch_episode(self, now: float, queue_s: float, in_kernel: int) -> None:
        if self._episode is None:
            self._episode = _Episode(now, queue_s, self.delivered_bps, in_kernel)
        episode = self._episode
        episode.longest_s = max(episode.longest_s, queue_s)
        if in_kernel < 0.9 * episode.in_kernel and now - episode.began_at < 2.0:
            episode.since, episode.in_kernel = now, in_kernel  # what the kernel got before still goes out
        is_long = now - episode.since > 1.0 + 4 * self._base_s + 2 * episode.longest_s
        if is_long and self.rate < 0.7 * episode.lam and queue_s > 0.6 * episode.longest_s:
            self._release(now, is_foreign=True)
