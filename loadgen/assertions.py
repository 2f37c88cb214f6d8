"""What a run has to fulfil: ``A.served>=99.9%``, ``p99<200ms``. Pure."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, NamedTuple

from loadgen.errors import UsageError
from loadgen.histogram import Histogram
from loadgen.outcomes import OUTCOMES
from loadgen.units import format_ms, parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from loadgen.summary import ClassSummary, Summary

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_COUNTS = ("served", *OUTCOMES, "requests", "redirects", "retries")
_FORM = re.compile(
    rf"(?:(?P<class>.+)\.)?(?P<metric>{'|'.join(_COUNTS)}|rate|mean|max|late_max|(?:late_)?p[0-9]{{1,2}}(?:\.[0-9]{{1,4}})?)"
    r"\s*(?P<op>>=|<=|==|>|<)\s*(?P<value>[0-9.]+)\s*(?P<unit>%|/s|us|ms|s|min)?",
    re.DOTALL,
)
_EXAMPLES = "write such as 'A.served>=99.9%', 'B.denied<100', 'rate>=500/s', 'p99<200ms' or 'late_p99<5ms'"


class Verdict(NamedTuple):
    text: str  # the assertion
    holds: bool
    actual: str  # what was measured, for people


class Assertion(NamedTuple):
    """``value`` is a share, a count, a rate per second or microseconds, as ``unit`` says."""

    text: str
    class_name: str | None  # None: of all requests
    metric: str
    op: str
    value: float
    unit: str

    def check_class(self, known: Iterable[str]) -> None:
        """Before a run, when the classes of the trace are known."""
        if self.class_name is not None and self.class_name not in known:
            names = ", ".join(sorted(known)[:10])
            raise UsageError(f"--assert '{self.text}': the trace has no class '{self.class_name}'; it has {names}")

    def judge(self, summary: Summary) -> Verdict:
        if self.class_name is None:
            row: ClassSummary | None = summary.all
        else:
            row = summary.classes.get(self.class_name)
        if row is None or not row.requests:
            of_class = "" if self.class_name is None else f" of class '{self.class_name}'"
            return Verdict(self.text, False, f"there were no requests{of_class}")
        if self.unit == "time":
            return self._judge_time(summary, row)
        if self.metric == "rate":
            return self._verdict(row.served_per_s, f"{row.served_per_s:g}/s")
        counts = {"served": row.outcomes["accepted"], "requests": row.requests, "redirects": row.redirects}
        count = {**row.outcomes, **counts, "retries": row.retries}[self.metric]
        if self.unit == "%":
            return self._verdict(count / row.requests, f"{count / row.requests:.4%} ({count} of {row.requests})")
        return self._verdict(count, f"{count} of {row.requests}")

    def _judge_time(self, summary: Summary, row: ClassSummary) -> Verdict:
        latency = summary.lateness_ms if self.metric.startswith("late_") else row.latency_ms
        if not latency.count:
            return Verdict(self.text, False, "nothing was accepted")
        metric = self.metric.removeprefix("late_")
        if metric in ("mean", "max"):
            actual_us = (latency.mean if metric == "mean" else latency.max) * 1e3
        else:
            actual_us = min(Histogram.decode(latency.hdr).percentile(float(metric[1:])), latency.max * 1e3)
        return self._verdict(actual_us, format_ms(actual_us))

    def _verdict(self, actual: float, shown: str) -> Verdict:
        return Verdict(self.text, _OPERATORS[self.op](actual, self.value), shown)


def parse_assertion(text: str) -> Assertion:
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--assert '{text}': not understood; {_EXAMPLES}")
    metric, unit, given = match["metric"], match["unit"] or "", match["value"]
    try:
        number = float(given)
    except ValueError:
        raise UsageError(f"--assert '{text}': '{given}' is not a number; {_EXAMPLES}") from None
    if metric in _COUNTS:
        if unit not in ("", "%"):
            raise UsageError(f"--assert '{text}': {metric} is a count or, with %, a share; {_EXAMPLES}")
        return Assertion(text, match["class"], metric, match["op"], number / 100 if unit else number, unit or "count")
    if metric == "rate":
        if unit not in ("", "/s"):
            raise UsageError(f"--assert '{text}': rate is in requests served per second, such as 'rate>=500/s'")
        return Assertion(text, match["class"], metric, match["op"], number, "/s")
    if unit not in ("us", "ms", "s", "min"):
        raise UsageError(f"--assert '{text}': {metric} is a time and needs a unit, such as 'p99<200ms'")
    if metric.startswith("late_") and match["class"] is not None:
        raise UsageError(f"--assert '{text}': {metric} is of the generator itself and has no class")
    return Assertion(text, match["class"], metric, match["op"], parse_duration_s(given + unit) * 1e6, "time")
