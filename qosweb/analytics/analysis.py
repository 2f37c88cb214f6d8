"""The whole analysis of logs that are complete, on one session: from sources and limits to findings.

The lines are read once for all that is added up, of a long log without the text of bad ones. They are read again only
for what is asked of single lines: those that show a violation, or that are bad, or pages that were accessed; and where
a response time is promised of which the logs do not tell at their beginning.
Neighbours: ``findings`` judges; ``stream`` does the same for logs that grow.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from qosweb.analytics.findings import Findings, Gathered, conclude, outside, policies_of
from qosweb.analytics.read import line_queries, policies, slot_sums, sources, tables
from qosweb.analytics.read.line_scan import LineScan
from qosweb.analytics.read.log_lines import event_in, narrow, read_lines, requests
from qosweb.analytics.spark.background_queries import BackgroundQueries
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from qosweb.analytics.analysis_request import AnalysisRequest
    from qosweb.analytics.judge.situations import AccessTimes
    from qosweb.analytics.read.policies import LoggedPolicy
    from qosweb.analytics.read.rows import AnalysisLimits, LogEvent


def analyse(
    spark: SparkSession,
    wanted: AnalysisRequest,
    say: Callable[[str], None] = lambda _: None,
    aside: str | None = None,
    tell: Callable[[Findings], None] = lambda _: None,
) -> Findings:
    """``say`` is told what is being done, ``tell`` the verdict (see ``conclude``); ``aside`` is where bad lines go."""
    limits = wanted.limits
    say("reading the lines")
    is_tiny = sources.is_tiny(wanted.sources)
    all_lines = narrow(read_lines(spark, wanted.sources, with_text=is_tiny), wanted.response)
    scan, of_slots, told = _scanned(all_lines, wanted, is_tiny, say)
    lines = requests(all_lines)
    try:
        with BackgroundQueries() as beside:
            took = beside.begin(lambda: tables.percentiles(scan.times()))
            ask_twice = partial(
                line_queries.twice, lines, scan
            )  # of a small log when it is wanted: nothing else is to be done
            twice = ask_twice if is_tiny else beside.begin(ask_twice)
            busiest = beside.begin(lambda: tables.top(scan.asked_for()))
            seen = slot_sums.survey(of_slots, limits)
            if seen.bad and not is_tiny:
                say("looking for what is wrong with bad lines")
                all_lines = narrow(read_lines(spark, wanted.sources), wanted.response)
                seen = seen._replace(bad=line_queries.bad_lines(all_lines))
            if not seen.requests:
                if seen.bad and aside:
                    line_queries.set_aside(all_lines, aside)
                cause = f" ({seen.bad[0][2]} lines: {seen.bad[0][1]}, in {seen.bad[0][0]})" if seen.bad else ""
                raise UsageError(f"no request could be read from the logs{cause}")
            gathered = Gathered(
                told,
                of_slots,
                took,
                busiest,
                twice,
                lambda broken: line_queries.samples(
                    spark, lines, broken, limits, wanted.response, sorted(outside(told))
                ),
                lambda policy: _accesses(spark, lines, policy, limits),
            )
            findings = conclude(gathered, seen, wanted, say, tell)
        if seen.bad and aside:
            say("setting bad lines aside")
            line_queries.set_aside(all_lines, aside)
        return findings
    finally:
        scan.kept.unpersist()


def _accesses(
    spark: SparkSession, lines: DataFrame, policy: LoggedPolicy, limits: AnalysisLimits
) -> Mapping[int, AccessTimes] | None:
    """None if there are too many pages: what depends on them is not judged, all else is."""
    try:
        return line_queries.accesses(line_queries.accessed(spark, lines, policy, limits), policy)
    except UsageError:
        return None


def _scanned(
    lines: DataFrame, wanted: AnalysisRequest, is_tiny: bool, say: Callable[[str], None]
) -> tuple[LineScan, slot_sums.OfSlots, list[LogEvent]]:
    """What was added up, kept; the sums by slot, and the events.

    Who was too slow is counted on the way, and that takes the policies, which are events: those at the beginning of the
    logs are looked at first. If others promise more, the lines have to be read once more.
    """
    at_first = [event for line in sources.first_lines(wanted.sources) if (event := event_in(line)) is not None]
    responses_ms = policies.response_limits(policies_of(wanted, at_first)[0])
    while True:
        say("adding up the lines")
        scan = LineScan(
            lines, wanted.limits, responses_ms, one_policy=wanted.spec is not None, response=wanted.response
        )
        scan.kept.cache()
        of_slots, told = scan.few() if is_tiny else (scan.slots(), scan.events())
        promised_ms = policies.response_limits(policies_of(wanted, told)[0])
        if set(promised_ms) <= set(responses_ms):
            return scan, of_slots, told
        scan.kept.unpersist()
        responses_ms = promised_ms
