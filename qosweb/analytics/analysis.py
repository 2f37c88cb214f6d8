"""The whole analysis of logs that are complete, on one session: from sources and limits to findings.

The lines are read once for all that is added up (before that, events are looked for in the text of them). They are read
again only for what is asked of single lines: those that show a violation, or that are bad, or pages that were accessed.
Neighbours: ``conclusion`` judges; ``stream`` does the same for logs that grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.analytics import asks, cells, policies
from qosweb.analytics.conclusion import Findings, Gathered, conclude, outside, policies_of
from qosweb.analytics.lines import narrow, read_events, read_lines, requests
from qosweb.analytics.scan import Scan
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from qosweb.analytics.wanted import Wanted


def analyse(
    spark: SparkSession, wanted: Wanted, say: Callable[[str], None] = lambda _: None, aside: str | None = None
) -> Findings:
    """``say`` is told what is being done; ``aside`` is where bad lines go."""
    limits = wanted.limits
    say("reading the lines")
    lines = requests(narrow(read_lines(spark, wanted.sources), wanted.response))
    told = read_events(spark, wanted.sources)
    known, _ = policies_of(wanted, told)
    say("adding up the lines")
    responses_ms = policies.response_limits(known)
    scan = Scan(lines, limits, responses_ms, one_policy=wanted.spec is not None, response=wanted.response)
    scan.kept.cache()
    of_slots = scan.slots()
    try:
        seen = cells.survey(of_slots, limits)
        if seen.bad and aside:
            asks.set_aside(lines, aside)
        if not seen.requests:
            cause = f" ({seen.bad[0][2]} lines: {seen.bad[0][1]}, in {seen.bad[0][0]})" if seen.bad else ""
            raise UsageError(f"no request could be read from the logs{cause}")
        gathered = Gathered(
            told,
            of_slots,
            scan.times(),
            scan.asked_for(),
            lambda: asks.twice(lines, scan.suspects()),
            lambda broken: asks.samples(spark, lines, broken, limits, wanted.response, sorted(outside(told))),
            lambda policy: asks.accesses(asks.accessed(spark, lines, policy, limits), policy),
        )
        return conclude(gathered, seen, wanted, say)
    finally:
        scan.kept.unpersist()
