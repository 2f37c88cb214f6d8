"""Mutants of the Knee law: one-line defects that the tests of its simulation have to detect."""

from __future__ import annotations

from cluster.sim.mutation import Mutant

_LAW = "qosweb.engine.laws.knee"
_POSTERIOR = "qosweb.engine.laws.knee_posterior"
_SAMPLES = "qosweb.engine.laws.service_samples"
_TIMES = "qosweb.engine.laws.service_times"
_GUARD = "qosweb.engine.laws.bypass_guard"

MUTANTS: tuple[Mutant, ...] = (
    Mutant("no margin", _LAW, "round(known.q70 + MARGIN + min(1.0, NOISE_MARGIN * self._noise * self.level))",
           "round(known.q70)", "the limit collapses"),
    Mutant("no leak", _POSTERIOR, "leak = 1 - exp(-LEAK_PER_S * seconds)", "leak = 0.0",
           "returned places are never found"),
    Mutant("dips are judged before all have ended", _LAW, "            if missing > 0:", "            if missing < 0:",
           "the later phase looks faster, and the limit creeps up"),
    Mutant("phases have a fixed time", _LAW,
           "            enough = current.started >= max(STARTS_MIN, STARTS_PER_SLOT * current.limit)\n            if (",
           "            enough = True\n            if (", "short requests count more often"),
    Mutant("no cap", _SAMPLES, "sums.ln += min(ln, usual + LN_CAP)", "sums.ln += ln + max(0.0, off)",
           "tails decide a comparison"),
    Mutant("no alarm", _TIMES, "        return now_s - self._above_s >= LASTS_S", "        return False",
           "lost places are noticed late"),
    Mutant("times are not compared per class", _LAW, "times = cohort.rows.get(row.number)",
           "row.number = 0\n        times = cohort.rows.get(row.number)",
           "a change of the mix of classes looks like one of service time"),
    Mutant("unlimited starts are samples", _SAMPLES, "        if not limited:", "        if limited is None:",
           "the limit moves although it does not bind"),
    Mutant("no guard", _GUARD, "        return min(wanted, self.ceiling)", "        return wanted",
           "a class that bypasses the bottleneck raises the limit"),
    Mutant("failures do not count", _LAW, "> OUTCOMES // 2:", "> OUTCOMES:",
           "a failing server gets as many requests as before"),
    Mutant("failed requests stay open", _LAW, "times.started += row.started - row.failed",
           "times.started += row.started", "a dip with a failed request waits for its cap"),
    Mutant("trial never ends", _LAW, "        if self.on_trial and succeeded:",
           "        if self.on_trial and succeeded < 0:", "a server that recovered keeps limit 1"),
    Mutant("bound by hand is ignored", _LAW, "min(self.limit_max, 2 * self.level,", "min(2 * self.level,",
           "the limit exceeds the bound"),
    Mutant("growth without evidence", _LAW, "2 * self.level, 2 * known.q10 + 1, wanted", "wanted",
           "the limit jumps to the upper end of what is possible"),
    Mutant("dips without depth", _LAW, "self._dip_to = max(1, ceil(level / 2),", "self._dip_to = max(1, level - 1,",
           "dips show too little"),
    Mutant("estimate is lost with failures", _LAW, "        self.on_trial = True\n",
           "        self.on_trial = True\n        self.level = 2\n", "the limit starts anew after a failure"),
)  # fmt: skip
