"""Summary of a run: the figures for text output, JSON and comparison. Pure."""

from typing import Self

import msgspec

from loadgen.results.histogram import Histogram
from loadgen.results.outcomes import ACCEPTED, DENIED, FAILED, OUTCOMES, UNSENT
from loadgen.results.results import RunFacts
from loadgen.results.tally import ClassTally, RunTally
from qosweb.units import format_ms

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
_LATE_WARN_US = 10_000
_NAME_MAX = 40
_DENIED = "denied; reason="  # prefix in the QoS-Decision header


class Latency(msgspec.Struct):
    """Durations in milliseconds; ``hdr`` is the whole histogram in microseconds (HdrHistogram V2)."""

    count: int
    mean: float
    max: float
    percentiles: dict[str, float]  # "p99": ms
    hdr: str

    @classmethod
    def of(cls, slots: dict[int, int], max_us: int | None = None) -> Self:
        histogram = Histogram(slots)
        largest = histogram.max if max_us is None else max_us
        return cls(
            histogram.total,
            round(histogram.mean / 1e3, 4),
            largest / 1e3,
            {f"p{p:g}": min(histogram.percentile(p), largest) / 1e3 for p in PERCENTILES},
            histogram.encode(),
        )


class ClassSummary(msgspec.Struct):
    """Outcomes of the requests of one class, or of all."""

    requests: int
    outcomes: dict[str, int]
    served: float  # accepted / requests
    served_per_s: float
    bytes: int
    denied_by_reason: dict[str, int]
    failed_by_cause: dict[str, int]
    answered_as: dict[str, int]
    redirects: int
    redirected: int
    retries: int
    latency_ms: Latency  # since the due time; in a closed loop since sending
    answer_ms: Latency  # since sending
    denial_ms: Latency


class RunSummary(msgspec.Struct):
    """Summary of a run."""

    run: RunFacts
    lasted_s: float
    offered_per_s: float
    all: ClassSummary
    classes: dict[str, ClassSummary]
    targets: dict[str, int]  # requests by target
    lateness_ms: Latency  # of the generator itself, in taking up due requests
    connections: int
    connections_failed: int
    unasked: int
    not_run: int  # requests that were not due yet when the run was interrupted
    cpu_s: float
    interrupted: bool
    died: list[str]  # last errors of worker processes that died
    # Of the generator itself, in reading responses that had arrived; not part of latencies. Empty without kernel
    # timestamps.
    read_lateness_ms: Latency = msgspec.field(default_factory=lambda: Latency.of({}))


def summarise(
    facts: RunFacts, tally: RunTally, *, lasted_s: float, not_run: int, cpu_s: float, interrupted: bool, died: list[str]
) -> RunSummary:
    span_s = max(min(lasted_s, facts.duration_s) if facts.duration_s > 0.1 else lasted_s, 1e-3)
    return RunSummary(
        facts,
        round(lasted_s, 3),
        round(tally.requests / span_s, 3),
        _summary_of(tally.whole(), lasted_s),
        {name: _summary_of(tally.classes[name], lasted_s) for name in sorted(tally.classes)},
        {url: tally.targets.get(at, 0) for at, url in enumerate(facts.targets)},
        Latency.of(tally.late_us, tally.late_max_us),
        tally.connections,
        tally.connections_failed,
        tally.unasked,
        not_run,
        round(cpu_s, 3),
        interrupted,
        died,
        Latency.of(tally.read_late_us, tally.read_late_max_us),
    )


def _summary_of(tally: ClassTally, lasted_s: float) -> ClassSummary:
    requests, accepted = tally.requests, tally.count(ACCEPTED)
    return ClassSummary(
        requests,
        {name: tally.count(name) for name in OUTCOMES},
        round(accepted / requests, 6) if requests else 0.0,
        round(accepted / max(lasted_s, 1e-3), 3),
        tally.bytes,
        _by_count(tally.reasons),
        _by_count(tally.causes),
        _by_count(tally.answered_as),
        tally.redirects,
        tally.redirected,
        tally.retries,
        Latency.of(tally.latency_us, tally.latency_max_us),
        Latency.of(tally.answer_us),
        Latency.of(tally.denial_us),
    )


def _by_count(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def warnings_of(summary: RunSummary) -> list[str]:
    """Problems that make the figures unreliable."""
    found = []
    late_ms = summary.lateness_ms.percentiles.get("p99", 0.0)
    if not summary.run.closed_loop and late_ms * 1e3 > _LATE_WARN_US:
        found.append(
            f"the generator itself was late (p99 {format_ms(late_ms * 1e3)}), which is included in the latencies: "
            f"use more --processes, or a lower rate"
        )
    if count := summary.all.outcomes[UNSENT]:
        found.append(
            f"{count} requests were not sent within {summary.run.send_within_s:g} s of being due: all "
            f"{summary.run.connections} connections to their target were busy"
        )
    if summary.interrupted:
        found.append(f"interrupted: {summary.not_run} requests of the trace were not run")
    found += [f"a worker process of the load generator died: {words}" for words in summary.died]
    return found


def render(summary: RunSummary) -> str:
    """The summary as text."""
    run = summary.run
    whole = summary.all
    requests = f"{whole.requests} requests in {summary.lasted_s:.1f} s"
    loop = (
        f"closed loop, {run.connections} clients, latency from when a request was sent"
        if run.closed_loop
        else f"{summary.offered_per_s:.1f}/s offered, latency from when a request was due"
    )
    lines = [f"{requests} ({loop})", ""]
    lines += _table(summary)
    lines.append("")
    for name, counts in ((DENIED, whole.denied_by_reason), (FAILED, whole.failed_by_cause)):
        lines += [f"{name + ':':<10}{count:>9}  {what.removeprefix(_DENIED)}" for what, count in counts.items()]
    if whole.redirected:
        lines.append(f"redirects: {whole.redirects} followed, in {whole.redirected} requests")
    if whole.retries:
        lines.append(f"retries:   {whole.retries} on connections that the server closed between requests")
    if summary.unasked:
        lines.append(f"unasked:   {summary.unasked} connections on which unrequested data arrived")
    if len(run.targets) > 1:
        lines += [f"to {url}: {count}" for url, count in summary.targets.items()]
    if summary.cpu_s and whole.requests:
        cost_us = summary.cpu_s / whole.requests * 1e6
        lines.append(f"generator: {cost_us:.0f} us of processor time per request")
    if not run.closed_loop:
        late, answer = summary.lateness_ms, whole.answer_ms.percentiles
        if whole.answer_ms.count:
            shown = ", ".join(f"{format_ms(ms * 1e3)} ({name})" for name, ms in answer.items())
            lines.append(f"since sent: {shown}")
        lines.append(f"generator: late by {_by(late)}")
    if summary.read_lateness_ms.count:
        lines.append(f"generator: read responses late by {_by(summary.read_lateness_ms)}; not included in latencies")
    lines += [f"warning: {text}" for text in warnings_of(summary)]
    return "\n".join(lines) + "\n"


def _by(late: Latency) -> str:
    p50, p99, most = (format_ms(ms * 1e3) for ms in (late.percentiles["p50"], late.percentiles["p99"], late.max))
    return f"{p50} (p50), {p99} (p99), {most} (max)"


def _table(summary: RunSummary) -> list[str]:
    """Columns of outcomes without requests are left out, to fit into a terminal."""
    rows = [("all", summary.all)]
    if list(summary.classes) != ["-"]:
        rows += list(summary.classes.items())
    had = [outcome for outcome in OUTCOMES if summary.all.outcomes[outcome] or outcome in (ACCEPTED, DENIED, FAILED)]
    lines = [["class", "requests", *had, "served", "served/s", "p50", "p90", "p99", "p99.9", "max"]]
    for name, row in rows:
        latency = row.latency_ms
        cells = [name[:_NAME_MAX], str(row.requests), *(str(row.outcomes[outcome]) for outcome in had)]
        cells += [f"{row.served * 100:.2f}%", f"{row.served_per_s:.1f}"]
        times = [*latency.percentiles.values(), latency.max]
        lines.append([*cells, *(format_ms(ms * 1e3) if latency.count else "-" for ms in times)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        f"{line[0]:<{widths[0]}}"
        + "".join(f"  {cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
        for line in lines
    ]
