"""The Knee law: finds how many requests an application server really serves at a time, and limits it to that.

While the limit binds, X R = L: throughput times service time is the limit (Little). If the limit dips from b to a,
the change of the mean ln R tells on which side of the knee N both stand, without a remembered baseline:

    D = E[ln R | b] - E[ln R | a] = ln(max(b, N) / max(a, N))

The law keeps a posterior over ln N (`knee_posterior`), multiplies it by the likelihood of each dip, and sets

    b = min(2 b, 2 q10 + 1, round(q70 + 1 + min(1, .12 b s)))      s = standard deviation of D

The 70 % quantile plus a margin of one: the margin hides the turnaround of a slot and lets the limit grow; with margin
0 the limit collapses under noise. At most 2 q10 + 1: growth needs evidence. A dip goes down to

    a = min(b - 1, .97 q10, b e^-s), at least b / 2                 information ~ depth^2, cost ~ depth

What is compared:

- D is the mean over classes of the difference per class, so a change of the mix of classes is no change of service
  time. Weights are half the share of requests (precise) and half the share of slot time (Little). Times are capped.
- For a class whose times are either short or long, D is the change of ln E[R] instead. By Little it is exact, and
  there its variance is a fraction of that of the mean ln R.
- Variance of D: 1.5 times that of independent samples, because waits are correlated; plus 8 % of ln(b / a) for the
  error of the model.
- A phase is `STARTS_PER_SLOT` starts per slot, not a fixed time: phases of fixed time count short requests more
  often, and the limit creeps up. A dip is judged when all its requests have ended or are late; before that, the later
  phase would look faster.
- Only starts that fill the last free slot are samples. The limit neither grows nor dips while it does not bind.

The times at b bound the wait without a dip: they cannot fall below the tolerated time T, so

    ln(b / N) <= E[ln R | b] - ln T

That is how the limit grows at a server that answers within T, whatever disturbs its dips.

Guard: the limit does not grow while a class of long service time waits for a pool inside the server that other
classes bypass (`bypass_guard`).

Alarm: if service times rise above what the knee explains (`service_times`), a dip decides at once. Either places were
lost (D ~ ln(b / a)) or everything is slower (D ~ 0).

Up to 5 ms at a server of over 1,000 requests a second are tolerated: shorter times count as that (`tolerance`).

Failures give no samples. If more than half of the last 20 requests failed, the limit is 1 until a success, and then
what it was. A server that returns after it was ejected starts at 1 and, after a success, doubles from 2 on evidence.

Pure: `absorb` gets batches of samples, of one gateway or of several in the same order everywhere, and `tick` gets the
time. A decision has integers only, because it is an ordered entry; `math.exp` may differ between machines, so only
one member decides. State is bounded by the number of classes and of open phases.
Neighbours: `service_samples` (gateways), `service_times`, `tolerance`, `knee_posterior`, `bypass_guard`; `sim` runs it.
"""

from __future__ import annotations

from collections import deque
from math import ceil, exp, log, sqrt
from typing import TYPE_CHECKING

import msgspec

from qosweb.engine.laws import bypass_guard
from qosweb.engine.laws.bypass_guard import BypassGuard, ClassFall
from qosweb.engine.laws.knee_posterior import KneePosterior
from qosweb.engine.laws.service_samples import CAP, MICRO, UNLIMITED
from qosweb.engine.laws.service_times import ServiceTimes
from qosweb.engine.laws.tolerance import WaitTolerance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qosweb.engine.laws.service_samples import SampleBatch, SampleRow

LIMIT_MAX = 1024
LIMIT_AT_FIRST = 4
MARGIN = 1.0
NOISE_MARGIN = 0.12  # more margin with noise, up to 1: speeds growth
DIP_TO = 0.97  # of q10
STARTS_PER_SLOT = 2.5  # in a dip
STARTS_MIN = 4
DIPS = 0.15  # part of the starts that happen in dips
DIPS_SEARCHING = 0.5  # while N is uncertain: speed before use
PHASE_MIN_S = 0.02
PHASE_MAX_S = 1.5  # of a phase at b
CORRELATION = 1.5
MODEL_ERROR = 0.08  # of ln(b / a)
VARIANCE_MIN = 1e-4
WEIGHT_OF_TIME = 0.5
SEARCH_ABOVE = 1.35  # q90 / q10
BASE_BELOW = 0.8  # of q10: so few in service that nothing waits inside
ALARM_PAUSE_S = 0.2  # between alarms, at least; and four mean service times
OUTCOMES = 20
COHORTS_MAX = 64


class LimitDecision(msgspec.Struct, array_like=True, frozen=True):
    """The limit from now on: becomes an ordered entry."""

    limit: int  # requests in service at most
    level: int  # the limit without dips
    epoch: int  # tags the requests that start under this decision


class _Cohort:
    """Requests that started in one phase while the limit was reached."""

    __slots__ = ("before", "closed_s", "dip", "epoch", "limit", "opened_s", "rows", "started")

    def __init__(self, epoch: int, dip: bool, limit: float, now_s: float, before: _Cohort | None) -> None:
        self.epoch, self.dip, self.limit, self.opened_s, self.before = epoch, dip, limit, now_s, before
        self.closed_s: float | None = None
        self.started = 0
        self.rows: dict[int, _Times] = {}  # by class


class _Times:
    __slots__ = ("ended", "ln", "seconds", "started")

    def __init__(self, started: int = 0, ended: int = 0, ln: float = 0.0) -> None:
        self.started, self.ended, self.ln = started, ended, ln
        self.seconds = 0.0  # sum of R; 0: unknown


class Knee:
    """The law of one server."""

    __slots__ = (
        "_alarm_s", "_cohorts", "_current", "_decided", "_dip_to", "_guard", "_noise", "_now_s", "_outcomes",
        "_posterior", "_searching", "_times", "_tolerance", "_updated_s", "delay_s", "epoch", "level", "limit_max",
        "on_trial", "phase_min_s",
    )  # fmt: skip

    def __init__(self, limit_max: int = LIMIT_MAX, delay_s: float = 0.0, level: int = 0) -> None:
        """`limit_max` is a bound by hand; `delay_s` is how long a decision takes to reach all gateways.

        `level` is the level that another member had found, if this one takes over.
        """
        self.limit_max = limit_max
        self.delay_s = delay_s
        self.phase_min_s = max(PHASE_MIN_S, 3 * delay_s)
        self.level = min(limit_max, level or LIMIT_AT_FIRST)
        self.epoch = 0
        self.on_trial = False  # limit 1 until a request succeeds
        self._dip_to = max(1, self.level // 2)
        self._posterior = KneePosterior(LIMIT_MAX, self.level)
        if level:
            self._posterior.begin_at(self.level)
        self._times = ServiceTimes()
        self._tolerance = WaitTolerance()
        self._guard = BypassGuard(self.level)
        self._outcomes: deque[bool] = deque(maxlen=OUTCOMES)  # True: failed
        self._searching = True
        self._noise = 0.0
        self._now_s = self._updated_s = self._alarm_s = 0.0
        self._decided = 0
        self._cohorts: list[_Cohort] = []  # closed, but not all of their requests have ended
        self._current: _Cohort
        self._begin(dip=False)

    @property
    def limit(self) -> int:
        """Requests in service at most, now."""
        return 1 if self.on_trial else int(self._current.limit)

    def decision(self) -> LimitDecision:
        return LimitDecision(self.limit, self.level, self.epoch)

    def absorb(self, batch: SampleBatch) -> None:
        for row in batch:
            self._tolerance.apply(row)
            cohort = self._find(row.epoch)
            if cohort is not None:
                self._count(cohort, row)
            if row.ended:
                one = self._times.absorb(row, log(self._posterior.q50))
                if row.epoch == UNLIMITED and row.ln_in_service <= MICRO * row.ended * log(
                    max(1.0, BASE_BELOW * self._posterior.q10)
                ):
                    one.learn(row.ended, row.ln / MICRO / row.ended)
        self._count_outcomes(sum(row.ended for row in batch), sum(row.failed for row in batch))

    def tick(self, now_s: float, in_service: int) -> LimitDecision | None:
        """Every 10 ms or so while requests are in service. Returns a decision if it changed."""
        if not self._now_s:  # the first time
            self._current.opened_s = self._updated_s = now_s
        self._now_s = now_s
        self._tolerance.advance(now_s)
        if not self.on_trial and self.limit_max > 1:
            self._step_phase(in_service)
            if self._judge_cohorts():
                self._choose()
            elif self._times.alarmed(self.level, now_s) and now_s - self._alarm_s > max(
                ALARM_PAUSE_S, 4 * self._times.mean_s
            ):
                self._alarm()
        if self._decided == self.epoch:
            return None
        self._decided = self.epoch
        return self.decision()

    def restart(self) -> None:
        """The server returns after it was ejected: it may be another one."""
        self._posterior.doubt()
        self._times = ServiceTimes()
        self._guard.reset(LIMIT_AT_FIRST)
        self.level, self._dip_to, self._searching = min(2, self.limit_max), 1, True
        self._try_one()

    def forget_classes(self) -> None:
        """The policy changed, and with it the numbers of the classes. The estimate stays."""
        self._times = ServiceTimes()
        self._tolerance.forget_classes()
        self._guard.reset(self.level)
        self._cohorts.clear()
        self._begin(dip=False)

    # ---- phases

    def _begin(self, dip: bool) -> None:
        """Begin a phase at b or at a; it ends the current one, if there is one."""
        before = getattr(self, "_current", None)
        if before is not None:
            before.closed_s = self._now_s
            if not before.dip:
                before.before = None
            self._cohorts.append(before)
            del self._cohorts[:-COHORTS_MAX]
        self.epoch += 1
        limit = self._dip_to if dip else self.level
        self._current = _Cohort(self.epoch, dip, limit, self._now_s, before)

    def _step_phase(self, in_service: int) -> None:
        current = self._current
        age_s = self._now_s - current.opened_s
        if age_s < self.phase_min_s:
            return
        if current.dip:
            enough = current.started >= max(STARTS_MIN, STARTS_PER_SLOT * current.limit)
            if (
                enough and (age_s > PHASE_MAX_S or not self._guard.thorough or self._is_thorough(current))
            ) or in_service < current.limit:  # fewer in service: nobody waits, no reason for a dip
                self._begin(dip=False)
            return
        dips = DIPS_SEARCHING if self._searching else DIPS
        enough = current.started >= max(STARTS_MIN, STARTS_PER_SLOT * current.limit * (1 - dips) / dips)
        overdue = age_s > PHASE_MAX_S and current.started >= max(STARTS_MIN, current.limit)
        if (enough and (not self._guard.thorough or self._is_thorough(current))) or overdue:
            self._begin(dip=True)

    def _is_thorough(self, cohort: _Cohort) -> bool:
        """Enough requests of each heavy class started, so that the dip can show whether it waits.

        Shares are those at b: in a dip, what such a class started before holds the slots.
        """
        weights = self._weights((cohort.before if cohort.dip and cohort.before is not None else cohort).rows)
        return all(
            number in cohort.rows
            and cohort.rows[number].started >= bypass_guard.STARTS_PER_SLOT * weights[number][0] * cohort.limit
            for number in bypass_guard.heavy_classes(weights)
        )

    def _weights(self, rows: Mapping[int, _Times]) -> dict[int, tuple[float, float, float]]:
        """By class: its share of slot time, its weight in means over classes, and its usual service time."""
        of = self._times.of  # a start may be lost with its batch, and only its failure be known
        usual = {number: exp(of[number].mean) for number, times in rows.items() if times.started > 0 and number in of}
        counted = sum(rows[number].started for number in usual)
        spent = sum(rows[number].started * usual_s for number, usual_s in usual.items())
        found = {}
        for number, usual_s in usual.items():
            share = rows[number].started * usual_s / spent
            weight = (1 - WEIGHT_OF_TIME) * rows[number].started / counted + WEIGHT_OF_TIME * share
            found[number] = (share, weight, usual_s)
        return found

    def _find(self, epoch: int) -> _Cohort | None:
        if epoch == self.epoch:
            return self._current
        for cohort in self._cohorts:
            if cohort.epoch == epoch:
                return cohort
        return None

    def _count(self, cohort: _Cohort, row: SampleRow) -> None:
        cohort.started += row.started
        times = cohort.rows.get(row.number)
        if times is None:
            times = cohort.rows[row.number] = _Times()
        times.started += row.started - row.failed
        times.ended += row.ended
        times.ln += row.ln / MICRO
        times.seconds += row.us / MICRO

    # ---- judging dips

    def _judge_cohorts(self) -> bool:
        seen = False
        unripe = []
        for cohort in self._cohorts:
            if not self._is_ripe(cohort):
                unripe.append(cohort)
            elif cohort.dip and cohort.before is not None and cohort.before.limit > cohort.limit:
                seen |= self._observe(cohort, cohort.before)
        self._cohorts = unripe
        return seen

    def _is_ripe(self, cohort: _Cohort) -> bool:
        """All requests have ended, or are late; late ones count as the cap."""
        assert cohort.closed_s is not None
        since_s = self._now_s - cohort.closed_s
        if since_s < self.delay_s:
            return False
        for number, times in cohort.rows.items():
            missing = times.started - times.ended
            if missing > 0:
                cap_s = self._times.cap_s(number, CAP)
                if since_s < cap_s:
                    return False
                times.ln += missing * log(cap_s)
                times.seconds += missing * cap_s
                times.ended = times.started
        return True

    def _observe(self, low: _Cohort, high: _Cohort) -> bool:
        of = self._times.of
        both = [number for number, times in low.rows.items()
                if times.ended and number in high.rows and high.rows[number].ended and number in of]  # fmt: skip
        if not both:
            return False
        weights = self._weights({number: _Times(low.rows[number].ended + high.rows[number].ended) for number in both})
        depth = log(high.limit / low.limit)
        model_variance = (MODEL_ERROR * depth) ** 2 + VARIANCE_MIN
        ln_tolerated = log(self._tolerance.seconds)
        fall = noise = above = unevenness = 0.0
        falls = {}
        for number in both:
            at_low, at_high = low.rows[number], high.rows[number]
            known = of[number]
            if known.has_modes and at_high.seconds and at_low.seconds:
                of_class = log(at_high.seconds / at_high.ended) - log(at_low.seconds / at_low.ended)
                relative, uneven = known.spread, 1.0
            else:
                of_class = at_high.ln / at_high.ended - at_low.ln / at_low.ended
                relative, uneven = known.variance, self._times.unevenness
            variance = CORRELATION * relative * (1 / at_low.ended + 1 / at_high.ended)
            _, weight, usual_s = weights[number]
            fall += weight * of_class
            noise += weight * weight * variance
            unevenness += weight * uneven
            above += weight * max(0.0, at_high.ln / at_high.ended - ln_tolerated)
            falls[number] = ClassFall(of_class, variance + model_variance, weight, usual_s)
        self._noise = sqrt(noise)
        if high.epoch != UNLIMITED:  # not what an alarm put together: its classes are not measured one by one
            self._guard_growth(low, high, falls)
        posterior = self._posterior
        posterior.advance(self._now_s - self._updated_s)
        self._updated_s = self._now_s
        posterior.observe(low.limit, high.limit, fall, noise + model_variance, unevenness)
        ln_high = log(high.limit)
        posterior.at_least(ln_high - above, noise + (MODEL_ERROR * ln_high) ** 2 + VARIANCE_MIN)
        waits = max(0.0, log(low.limit) - log(posterior.q50))
        for number, times in low.rows.items():
            if times.ended and number in of:
                of[number].learn(times.ended, times.ln / times.ended - waits)
        return True

    def _guard_growth(self, low: _Cohort, high: _Cohort, falls: Mapping[int, ClassFall]) -> None:
        deep = low.limit <= ceil(high.limit / 2)
        thorough = deep and self._is_thorough(low) and self._is_thorough(high)
        heavy = bypass_guard.heavy_classes(self._weights(high.rows))
        self._guard.observe(self._now_s, low.limit, high.limit, falls, heavy, thorough)

    def _choose(self) -> None:
        """Set b and a from the posterior."""
        known = self._posterior
        wanted = round(known.q70 + MARGIN + min(1.0, NOISE_MARGIN * self._noise * self.level))
        level = max(2, int(min(self.limit_max, 2 * self.level, 2 * known.q10 + 1, wanted)))
        self.level = level = self._guard.bound(self._now_s, self.level, level)
        dip_to = min(level - 1, round(DIP_TO * known.q10), round(level * exp(-self._noise)))
        self._dip_to = max(1, ceil(level / 2), 0 if self._guard.thorough else dip_to)
        self._searching = known.q90 / known.q10 > SEARCH_ABOVE + 1 / known.q50
        if not self._current.dip and self._current.limit != level:
            self._begin(dip=False)

    def _alarm(self) -> None:
        """Service times rose. The samples before are the phase at b; a dip decides on the cause."""
        times = self._times
        shift, ln_in_service, counts = times.shift, times.ln_in_service, times.counts
        low = max(0.0, ln_in_service - shift)
        high = max(low, ln_in_service - shift / times.unevenness)
        self._posterior.suggest(low, high)
        self._alarm_s = self._now_s
        self.level = max(2, min(self.level, int(exp(ln_in_service)) + 1))
        self._dip_to = min(self.level - 1, max(1, self.level // 2, round(exp((low + high) / 2))))
        seen = _Cohort(UNLIMITED, False, max(self._dip_to + 1, exp(ln_in_service)), self._now_s, None)
        for number, count in counts.items():
            seen.rows[number] = _Times(count, count, count * (times.of[number].base + shift))
        self._guard.forget_dips()
        times.doubt_bases()
        times.reset_alarm()
        self._searching = True
        self._current = seen
        self._begin(dip=True)
        self._cohorts.clear()  # they straddle the change

    # ---- failures

    def _count_outcomes(self, succeeded: int, failed: int) -> None:
        if self.on_trial and succeeded:
            self.on_trial = False
            self._outcomes.clear()
            self._begin(dip=False)
        self._outcomes.extend([False] * min(succeeded, OUTCOMES))
        self._outcomes.extend([True] * min(failed, OUTCOMES))
        if not self.on_trial and sum(self._outcomes) > OUTCOMES // 2:
            self._try_one()

    def _try_one(self) -> None:
        self.on_trial = True
        self._outcomes.clear()
        self._cohorts.clear()
        self._begin(dip=False)
        self._cohorts.clear()
