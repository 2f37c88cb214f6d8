"""Assertions on a run's summary: ``A.served>=99.9%``, ``p99<200ms``. Pure."""

from __future__ import annotations

import difflib
import operator
import re
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from loadgen.results.histogram import Histogram
from loadgen.results.outcomes import OUTCOMES
from qosweb.errors import UsageError
from qosweb.units import format_ms, parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from loadgen.results.summary import ClassSummary, RunSummary

_OPERATORS: dict[str, Callable[[Fraction | float, Fraction | float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_COUNTS = ("served", *OUTCOMES, "requests", "redirects", "retries")
_OTHERS = ("rate", "mean", "max", "p50", "p99", "p99.9", "late_p99", "late_max", "read_late_p99")
_LEFT = re.compile(
    rf"(?:(?P<class>.+)\.)?(?P<metric>{'|'.join(_COUNTS)}|rate|mean|max|(?:read_)?late_max"
    rf"|(?:(?:read_)?late_)?p[0-9]{{1,2}}(?:\.[0-9]{{1,4}})?)",
    re.DOTALL,
)
_COMPARISON = re.compile(r"(?P<left>(?:.*[^<>=!])?)(?P<op>[<>=!]+)(?P<right>[^<>=!]*)", re.DOTALL)
_RIGHT = re.compile(r"(?P<value>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(?P<unit>%|/s|us|ms|s|min)?")
_EXAMPLES = "write such as 'A.served>=99.9%', 'B.denied<100', 'rate>=500/s', 'p99<200ms' or 'late_p99<5ms'"


class AssertionResult(NamedTuple):
    """The verdict on one assertion."""

    text: str  # the assertion
    holds: bool
    actual: str  # the measured value, as text


class Assertion(NamedTuple):
    """``unit`` tells whether ``value`` is a share, a count, a rate per second or microseconds. Shares are exact."""

    text: str
    class_name: str | None  # None: all requests
    metric: str
    op: str
    value: Fraction | float
    unit: str

    def check_class(self, known: Iterable[str]) -> None:
        """Raise UsageError if the trace has no such class. Called before a run."""
        if self.class_name is not None and self.class_name not in known:
            names = ", ".join(sorted(known)[:10])
            raise UsageError(f"--assert '{self.text}': the trace has no class '{self.class_name}'; it has {names}")

    def judge(self, summary: RunSummary) -> AssertionResult:
        if self.class_name is None:
            row: ClassSummary | None = summary.all
        else:
            row = summary.classes.get(self.class_name)
        if row is None or not row.requests:
            of_class = "" if self.class_name is None else f" of class '{self.class_name}'"
            return AssertionResult(self.text, False, f"there were no requests{of_class}")
        if self.unit == "time":
            return self._judge_time(summary, row)
        if self.metric == "rate":
            return self._verdict(row.served_per_s, f"{row.served_per_s:g}/s")
        counts = {"served": row.outcomes["accepted"], "requests": row.requests, "redirects": row.redirects}
        count = {**row.outcomes, **counts, "retries": row.retries}[self.metric]
        if self.unit == "%":
            return self._verdict(
                Fraction(count, row.requests), f"{count / row.requests:.4%} ({count} of {row.requests})"
            )
        return self._verdict(count, f"{count} of {row.requests}")

    def _judge_time(self, summary: RunSummary, row: ClassSummary) -> AssertionResult:
        of, _, metric = self.metric.rpartition("late_")
        if metric == self.metric:
            latency, none = row.latency_ms, "nothing was accepted"
        elif of:
            latency, none = summary.read_lateness_ms, "the arrival times of responses are not known"
        else:
            latency, none = summary.lateness_ms, "nothing was due"
        if not latency.count:
            return AssertionResult(self.text, False, none)
        if metric in ("mean", "max"):
            actual_us = (latency.mean if metric == "mean" else latency.max) * 1e3
        else:
            actual_us = min(Histogram.decode(latency.hdr).percentile(float(metric[1:])), latency.max * 1e3)
        return self._verdict(actual_us, format_ms(actual_us))

    def _verdict(self, actual: Fraction | float, shown: str) -> AssertionResult:
        return AssertionResult(self.text, _OPERATORS[self.op](actual, self.value), shown)


def parse_assertion(text: str) -> Assertion:
    """Raises UsageError, which says which part is wrong and what would be right."""
    compared = _COMPARISON.fullmatch(text)
    if compared is None:
        raise UsageError(f"--assert '{text}': not understood; {_EXAMPLES}")
    if compared["op"] not in _OPERATORS:
        raise UsageError(
            f"--assert '{text}': '{compared['op']}' is not a comparison; use one of {', '.join(_OPERATORS)}"
        )
    left, right = _LEFT.fullmatch(compared["left"].strip()), _RIGHT.fullmatch(compared["right"].strip())
    if left is None:
        raise UsageError(f"--assert '{text}': {_fault_in_metric(compared['left'].strip())}")
    if right is None:
        raise UsageError(f"--assert '{text}': '{compared['right'].strip()}' is not a number with a unit; {_EXAMPLES}")
    class_name, metric, op = left["class"], left["metric"], compared["op"]
    number, unit = Fraction(right["value"]), right["unit"] or ""
    if metric in _COUNTS:
        if unit not in ("", "%"):
            raise UsageError(f"--assert '{text}': {metric} is a count or, with %, a share; {_EXAMPLES}")
        if not unit and number.denominator > 1:
            share = right["value"]
            raise UsageError(f"--assert '{text}': {metric} is a whole number or a share; for a share write {share}%")
        if unit and number > 100 and metric not in ("redirects", "retries"):
            raise UsageError(f"--assert '{text}': a share cannot be more than 100%")
        return Assertion(text, class_name, metric, op, number / 100 if unit else number, unit or "count")
    if metric == "rate":
        if unit not in ("", "/s"):
            raise UsageError(f"--assert '{text}': rate is in requests served per second, such as 'rate>=500/s'")
        return Assertion(text, class_name, metric, op, float(number), "/s")
    if unit not in ("us", "ms", "s", "min"):
        raise UsageError(f"--assert '{text}': {metric} is a time and needs a unit, such as 'p99<200ms'")
    if "late_" in metric and class_name is not None:
        raise UsageError(f"--assert '{text}': {metric} is a figure of the generator and has no class")
    return Assertion(text, class_name, metric, op, parse_duration_s(f"{float(number):.9f}{unit}") * 1e6, "time")


def _fault_in_metric(given: str) -> str:
    """Describe what is wrong left of the comparison."""
    percentile = re.search(r"(?:^|\.)(p[0-9.]+)$", given)
    name = percentile[1] if percentile else given.rpartition(".")[2]
    if not name or re.search("[<>=!]", name):
        return f"not understood; {_EXAMPLES}"
    if re.fullmatch(r"p100(\.0*)?", name):
        return "write max instead of p100"
    if re.fullmatch(r"p[0-9.]+", name):
        return f"{name} is not a percentile below 100 with at most four decimals, such as p99.9"
    known = [*_COUNTS, *_OTHERS]
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.7)
    return f"unknown metric '{name}'; " + (f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}")
