"""Batch analysis: runs all Spark queries over complete logs and returns the findings.

All sums come from a single pass over the lines, which skips the text of bad lines. The lines are read again only for
queries about single lines (evidence of a violation, bad lines, accessed pages), and where a policy that appears late in
the logs has a response time that the first pass did not know.
Neighbours: ``findings`` judges; ``follow.stream`` does the same for growing logs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from qosweb.analytics.findings import Findings, LogAggregates, conclude, outside, policies_of
from qosweb.analytics.read import line_queries, policies, slot_sums, sources, tables
from qosweb.analytics.read.line_scan import LineScan
from qosweb.analytics.read.log_lines import event_in, narrow, read_lines, requests
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from qosweb.analytics.judge.situations import AccessTimes
    from qosweb.analytics.read.policies import LoggedPolicy
    from qosweb.analytics.read.rows import AnalysisLimits, AnalysisRequest, LogEvent


def analyse(
    spark: SparkSession,
    request: AnalysisRequest,
    show_step: Callable[[str], None] = lambda _: None,
    bad_folder: str | None = None,
    on_findings: Callable[[Findings], None] = lambda _: None,
) -> Findings:
    """Analyses complete logs.

    ``show_step`` shows the current step. ``on_findings`` gets the findings early (see ``conclude``). Bad lines are
    written to ``bad_folder``.
    """
    limits = request.limits
    show_step("reading the lines")
    all_lines = narrow(read_lines(spark, request.sources, with_text=False), request.response)
    lines = requests(all_lines)
    responses_ms = policies.response_limits(policies_of(request, _first_events(request))[0])
    show_step("aggregating the lines")
    scan = _scan(all_lines, request, responses_ms)
    scans = [scan]
    try:
        with ThreadPoolExecutor(1) as background:  # Spark plans these queries while it scans the lines
            surveyed = background.submit(lambda: slot_sums.survey(scan.slots(), limits))
            took = background.submit(lambda: tables.percentiles(scan.times()))
            twice = background.submit(lambda: line_queries.duplicate_ends(lines, scan))
            busiest = background.submit(lambda: tables.top(scan.asked_for()))
            events = scan.events()
            promised_ms = policies.response_limits(policies_of(request, events)[0])
            if not set(promised_ms) <= set(responses_ms):
                scans.append(_scan(all_lines, request, promised_ms))
            seen = surveyed.result()
            if seen.bad:
                show_step("classifying bad lines")
                all_lines = narrow(read_lines(spark, request.sources), request.response)
                seen = seen._replace(bad=line_queries.bad_lines(all_lines))
            if not seen.requests:
                if seen.bad and bad_folder:
                    line_queries.write_bad_lines(all_lines, bad_folder)
                cause = f" ({seen.bad[0][2]} lines: {seen.bad[0][1]}, in {seen.bad[0][0]})" if seen.bad else ""
                raise UsageError(f"no request could be read from the logs{cause}")
            gathered = LogAggregates(
                events,
                scans[-1].slots(),
                took.result,
                busiest.result,
                twice.result,
                lambda broken: line_queries.samples(
                    spark, lines, broken, limits, request.response, sorted(outside(events))
                ),
                lambda policy: _accesses(spark, lines, policy, limits),
            )
            findings = conclude(gathered, seen, request, show_step, on_findings)
        if seen.bad and bad_folder:
            show_step("writing bad lines")
            line_queries.write_bad_lines(all_lines, bad_folder)
        return findings
    finally:
        for each in scans:
            each.kept.unpersist()


def _accesses(
    spark: SparkSession, lines: DataFrame, policy: LoggedPolicy, limits: AnalysisLimits
) -> Mapping[int, AccessTimes] | None:
    """Access times by page set; None if there are too many pages, then rules on accesses are not judged."""
    try:
        return line_queries.collect_accesses(line_queries.query_accesses(spark, lines, policy, limits), policy)
    except UsageError:
        return None


def _first_events(request: AnalysisRequest) -> list[LogEvent]:
    """The events at the beginning of the logs."""
    return [event for line in sources.first_lines(request.sources) if (event := event_in(line)) is not None]


def _scan(lines: DataFrame, request: AnalysisRequest, responses_ms: Sequence[int]) -> LineScan:
    """The sums over the lines, cached.

    Slow requests are counted in the same pass, which needs the response times of the policies. Policies are events, so
    the beginning of the logs is searched for them first. If later policies add response times, the lines are scanned
    once more.
    """
    scan = LineScan(lines, request.limits, responses_ms, one_policy=request.spec is not None, response=request.response)
    scan.kept.cache()
    return scan
