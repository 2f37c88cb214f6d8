"""Spark queries on single log lines: page accesses, evidence of violations, requests that ended twice, bad lines.

Neighbours: ``situations`` uses the accesses, ``verdicts`` the evidence, ``view_chain`` the duplicate ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as f

from qosweb.analytics.judge.situations import AccessTimes
from qosweb.analytics.read.line_scan import with_names
from qosweb.analytics.read.log_lines import OF_EVENTS
from qosweb.analytics.read.policies import EVERY
from qosweb.analytics.read.slot_sums import ENDED, TOO_MANY, has_given_up
from qosweb.errors import UsageError
from qosweb.http.hosts import parse_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from qosweb.analytics.read.line_scan import LineScan
    from qosweb.analytics.read.policies import LoggedPolicy
    from qosweb.analytics.read.rows import AnalysisLimits, Verdict

PAGES_MAX = 200_000
SAMPLE = 5
SAMPLED_MAX = 50
TWICE_MAX = 20
KNOWN = (
    "ts",
    "rid",
    "node",
    "class",
    "decision",
    "status",
    "bytes",
    "queue_ms",
    "event",
    "view",
    "policy",
    "resource",
    *OF_EVENTS,
)


class DuplicateEnds(NamedTuple):
    """Requests that ended more than once."""

    some: list[tuple[str, list[str]]]  # rid, and the decisions and nodes of its lines
    how_many: int
    named: int  # lines that end a request and have its rid; without any the rule cannot be tested


def query_accesses(spark: SparkSession, lines: DataFrame, policy: LoggedPolicy, limits: AnalysisLimits) -> DataFrame:
    """First and last access to the pages of ``accessed(...)``, by policy, page set and slot.

    The language's own matcher assigns pages to sets.
    """
    asked = lines.where(f.col("cause").isNull() & (f.col("status") != 404))
    if policy.name != EVERY:
        asked = asked.where(f.col("policy") == policy.name)
    pages = asked.select("host", "path").distinct().limit(PAGES_MAX + 1).collect()
    if len(pages) > PAGES_MAX:
        raise UsageError(f"the log has more than {PAGES_MAX} pages; rules with accessed(...) cannot be judged")
    matcher = policy.matcher()
    watched = [
        (row["host"], row["path"], number)
        for row in pages
        for number in matcher.watched_sets(parse_host(row["host"] or "") or "", row["path"] or "/")
    ]
    table = spark.createDataFrame(watched, "host string, path string, pages int")
    slot = f.floor(f.col("ts") / limits.slot_s).alias("slot")
    return (
        asked.join(f.broadcast(table), ["host", "path"])
        .groupBy(f.lit(policy.name).alias("policy"), "pages", slot)
        .agg(f.min("ts").alias("first"), f.max("ts").alias("last"))
    )


def collect_accesses(found: DataFrame, policy: LoggedPolicy) -> dict[int, AccessTimes]:
    """Collects the result of ``query_accesses``, by page set."""
    times: dict[int, list[tuple[float, float]]] = {number: [] for number in policy.watched_sets()}
    for row in found.where(f.col("policy") == policy.name).collect():
        times[row["pages"]].append((row["first"], row["last"]))
    return {number: AccessTimes(of_pages) for number, of_pages in times.items()}


def samples(
    spark: SparkSession,
    lines: DataFrame,
    verdicts: Sequence[Verdict],
    limits: AnalysisLimits,
    response: str,
    outside: Sequence[str],
) -> dict[Verdict, list[str]]:
    """A few request ids that show each of the given violations; one query for all of them."""
    chosen = [verdict for verdict in verdicts if verdict.evidence is not None and verdict.key is not None][:SAMPLED_MAX]
    if not chosen:
        return {}
    wanted = [
        (at, verdict.key.window_s, name, verdict.key.policy, verdict.key.scope, verdict.evidence.what,
         float(verdict.evidence.limit_ms))
        for at, verdict in enumerate(chosen)
        if verdict.key is not None and verdict.evidence is not None
        for name in verdict.evidence.classes
    ]  # fmt: skip
    table = spark.createDataFrame(
        wanted, "verdict int, window_s long, class string, of string, scope string, what string, limit_ms double"
    )
    window = f.floor(f.floor(f.col("at") / limits.slot_s) * limits.slot_s / limits.window_s) * limits.window_s
    shown = (
        lines.where(f.col("cause").isNull())
        .withColumn("window_s", window)
        .join(f.broadcast(table), ["window_s", "class"])
        .where(_shows(limits, response, outside))
    )
    order = Window.partitionBy("verdict").orderBy("at", "rid")
    rows = (
        shown.select("verdict", "rid", f.row_number().over(order).alias("number"))
        .where(f.col("number") <= SAMPLE)
        .collect()
    )
    found: dict[Verdict, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row["verdict"], row["number"])):
        found.setdefault(chosen[row["verdict"]], []).append(row["rid"])
    return found


def _shows(limits: AnalysisLimits, response: str, outside: Sequence[str]) -> Column:
    """True if a line has the outcome, the policy and the scope that its row of the table asks for."""
    decision, what, limit_ms = f.col("decision"), f.col("what"), f.col("limit_ms")
    took = f.col("total_ms") if response == "total" else f.col("service_ms")
    is_lost = (decision == "expired") | ((decision == "denied") & (f.col("status") != TOO_MANY))
    is_outside = f.coalesce("view", f.lit("")).isin(*outside) if outside else f.lit(False)
    return (
        (
            ((what == "lost") & is_lost)
            | ((what == "held back") & (is_lost | has_given_up(limits)))
            | ((what == "served") & (decision == "served"))
            | ((what == "waited") & (f.col("queue_ms") > limit_ms))
            | ((what == "slow") & (decision == "served") & (took > limit_ms))
        )
        & (f.col("of").isin(EVERY) | (f.col("of") == f.col("policy")))
        & ((f.col("scope") == "") | (is_outside & (f.col("scope") == f.col("node"))))
    )


def duplicate_ends(lines: DataFrame, scan: LineScan) -> DuplicateEnds:
    """Finds requests that ended twice. Reads the lines again only if there are more of them than request ids."""
    (named, too_many), *_ = scan.names().collect()
    if not too_many:
        return DuplicateEnds([], 0, named)
    first = scan.suspects().limit(10 * TWICE_MAX).collect()
    ended = with_names(lines).where(
        f.col("cause").isNull()
        & f.col("decision").isin(*ENDED)
        & f.col("stem").isin(*{row["stem"] for row in first})
        & f.coalesce("block", f.lit(-1)).isin(*{-1 if row["block"] is None else row["block"] for row in first})
    )
    said = ended.groupBy("rid").agg(f.sort_array(f.collect_list(f.concat_ws(" at ", "decision", "node"))).alias("said"))
    rows = said.where(f.size("said") > 1).orderBy("rid").limit(TWICE_MAX).collect()
    return DuplicateEnds([(row["rid"], list(row["said"])) for row in rows], too_many if rows else 0, named)


def bad_lines(lines: DataFrame) -> list[tuple[str, str, int]]:
    """File, cause and number of bad lines, like ``Survey.bad``, from lines that were read with their text."""
    rows = lines.where(f.col("cause").isNotNull()).groupBy("file", "cause").count().collect()
    return sorted((row["file"], row["cause"], row["count"]) for row in rows)


def bad_texts(lines: DataFrame) -> DataFrame:
    """The bad lines: ``file``, ``cause``, and ``line``, the text as far as it is known."""
    text = f.coalesce("bad", f.to_json(f.struct(*KNOWN))).alias("line")
    return lines.where(f.col("cause").isNotNull()).select("file", "cause", text)


def write_bad_lines(lines: DataFrame, target: str) -> None:
    """Writes the bad lines as JSON lines."""
    bad_texts(lines).write.mode("overwrite").json(target)
