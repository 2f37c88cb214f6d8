"""Compares the summaries of two runs side by side. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.results.histogram import Histogram
from loadgen.results.outcomes import OUTCOMES
from loadgen.results.summary import PERCENTILES
from qosweb.units import format_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loadgen.results.summary import ClassSummary, Latency, RunSummary


def compare(first: RunSummary, second: RunSummary) -> dict[str, object]:
    """For JSON output: by class, each figure of both runs and the difference; null if only one run has the class."""
    return {name: _compared(one, other) for name, one, other in _classes(first, second)}


def _compared(one: ClassSummary | None, other: ClassSummary | None) -> dict[str, object]:
    if one is not None and other is not None:
        return {what: {"a": a, "b": b, "difference": round(b - a, 6)} for what, a, b, _ in _figures(one, other)}
    only = one or other
    assert only is not None, "a class that neither run has"
    return {
        what: {"a": one and value, "b": other and value, "difference": None}
        for what, value, _, _ in _figures(only, only)
    }


def render_comparison(first: RunSummary, second: RunSummary, names: tuple[str, str]) -> str:
    lines = [f"A: {names[0]}  ({_described(first)})", f"B: {names[1]}  ({_described(second)})"]
    for at, (class_name, one, other) in enumerate(_classes(first, second)):
        name = f"class {class_name}" if at else "all classes"
        lines.append("")
        if one is None or other is None:
            lines.append(f"{name}: only in {'A' if other is None else 'B'}")
            continue
        lines.append(f"{name:<16}{'A':>14}{'B':>14}{'B - A':>14}{'B / A':>10}")
        for what, a, b, kind in _figures(one, other):
            ratio = f"{b / a:.3f}" if a else "-"
            difference = ("+" if b >= a else "-") + _shown(abs(b - a), kind)
            lines.append(f"  {what:<14}{_shown(a, kind):>14}{_shown(b, kind):>14}{difference:>14}{ratio:>10}")
    return "\n".join(lines) + "\n"


def _described(summary: RunSummary) -> str:
    loop = "closed loop" if summary.run.closed_loop else f"{summary.offered_per_s:.1f}/s offered"
    return f"{summary.all.requests} requests in {summary.lasted_s:.1f} s, {loop}"


def _classes(first: RunSummary, second: RunSummary) -> Iterator[tuple[str, ClassSummary | None, ClassSummary | None]]:
    yield "all", first.all, second.all
    names = sorted(first.classes.keys() | second.classes.keys())
    if names != ["-"]:
        for name in names:
            yield name, first.classes.get(name), second.classes.get(name)


def _figures(one: ClassSummary, other: ClassSummary) -> Iterator[tuple[str, float, float, str]]:
    yield "requests", one.requests, other.requests, "count"
    for outcome in OUTCOMES:
        a, b = one.outcomes[outcome], other.outcomes[outcome]
        if a or b:
            yield outcome, a, b, "count"
    yield "served", one.served, other.served, "share"
    yield "served/s", one.served_per_s, other.served_per_s, "rate"
    if one.latency_ms.count and other.latency_ms.count:
        yield "mean", one.latency_ms.mean, other.latency_ms.mean, "ms"
        for percent in PERCENTILES:
            yield f"p{percent:g}", _percentile(one.latency_ms, percent), _percentile(other.latency_ms, percent), "ms"
        yield "max", one.latency_ms.max, other.latency_ms.max, "ms"


def _percentile(latency: Latency, percent: float) -> float:
    known = latency.percentiles.get(f"p{percent:g}")
    return known if known is not None else Histogram.decode(latency.hdr).percentile(percent) / 1e3


def _shown(value: float, kind: str) -> str:
    if kind == "count":
        return str(int(value))
    if kind == "share":
        return f"{value * 100:.2f}%"
    return f"{value:.1f}" if kind == "rate" else format_ms(value * 1e3)
