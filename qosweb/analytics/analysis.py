"""The whole analysis of logs that are complete, on one session: from sources and limits to findings.

The lines are read once and what is needed of them is kept, in memory or on disk, in a narrow form; every question goes
to that.
Neighbours: ``conclusion`` judges; ``stream`` does the same for logs that grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import StorageLevel

from qosweb.analytics import asks, cells, policies, tables
from qosweb.analytics.conclusion import Findings, Gathered, conclude, outside, policies_of
from qosweb.analytics.lines import events, narrow, read_lines, requests
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
    kept = narrow(read_lines(spark, wanted.sources), wanted.response).persist(StorageLevel.MEMORY_AND_DISK)
    lines = requests(kept)
    told = events(kept)
    known, _ = policies_of(wanted, told)
    say("adding up the lines")
    of_slots = cells.slots(
        lines, limits, policies.response_limits(known), one_policy=wanted.spec is not None, response=wanted.response
    ).cache()
    times = tables.times(lines, limits)
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
            times,
            tables.asked_for(lines),
            lambda: asks.twice(lines),
            lambda broken: asks.samples(spark, lines, broken, limits, wanted.response, sorted(outside(told))),
            lambda policy: asks.accesses(asks.accessed(spark, lines, policy, limits), policy),
        )
        return conclude(gathered, seen, wanted, say)
    finally:
        of_slots.unpersist()
        kept.unpersist()
