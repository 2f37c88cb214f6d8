"""Exports latencies for HdrHistogram's own tools: its log format, or a percentile distribution. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from loadgen.results.histogram import Histogram

if TYPE_CHECKING:
    from loadgen.results.summary import Latency, RunSummary


def hdr_log(summary: RunSummary) -> str:
    """Log format 1.3: one histogram in microseconds for all requests, then one for each class, tagged with its name."""
    started_s = datetime.fromisoformat(summary.run.started).timestamp()
    lines = [
        "#[Histogram log format version 1.3]",
        "#[latency in microseconds of what was accepted, since it was due]",
        f"#[StartTime: {started_s:.3f} (seconds since epoch), {summary.run.started}]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
        _interval(summary, summary.all.latency_ms),
    ]
    for name, row in summary.classes.items():
        tag = "".join("_" if c in ", \t" else c for c in name)
        lines.append(f"Tag={tag},{_interval(summary, row.latency_ms)}")
    return "\n".join(lines) + "\n"


def percentiles(summary: RunSummary) -> str:
    return Histogram.decode(summary.all.latency_ms.hdr).percentile_text()


def _interval(summary: RunSummary, latency: Latency) -> str:
    return f"0.000,{summary.lasted_s:.3f},{latency.max * 1e3:.3f},{latency.hdr}"
