"""Questions to the lines themselves, each one query: accesses, lines that show a violation, requests that ended twice.

Neighbours: ``situations`` wants accesses, ``judge`` verdicts want samples, ``chain`` wants what was counted twice.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

from qosweb.analytics.policies import EVERY
from qosweb.analytics.situations import Accesses
from qosweb.errors import UsageError
from qosweb.http.hosts import parse_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from qosweb.analytics.policies import Policy
    from qosweb.analytics.rows import Limits, Verdict

PAGES_MAX = 200_000
SAMPLE = 5
SAMPLED_MAX = 30
TWICE_MAX = 20


def accesses(spark: SparkSession, lines: DataFrame, policy: Policy, limits: Limits) -> dict[int, Accesses]:
    """When the pages of ``accessed(...)`` were asked for, by page set; the language's own matcher knows them."""
    asked = lines.where(f.col("cause").isNull() & (f.col("method") != "-") & (f.col("status") != 404))
    if policy.name != EVERY:
        asked = asked.where(f.col("policy") == policy.name)
    pages = asked.select("host", "path").distinct().limit(PAGES_MAX + 1).collect()
    if len(pages) > PAGES_MAX:
        raise UsageError(f"the log has more than {PAGES_MAX} pages; rules on accessed(...) cannot be judged on it")
    matcher = policy.matcher()
    watched = [
        (row["host"], row["path"], number)
        for row in pages
        for number in matcher.watched_sets(parse_host(row["host"] or "") or "", row["path"] or "/")
    ]
    if not watched:
        return {number: Accesses([]) for number in policy.watched_sets()}
    table = spark.createDataFrame(watched, "host string, path string, pages int")
    slot = f.floor(f.col("ts") / limits.slot_s).alias("slot")
    seen = (
        asked.join(f.broadcast(table), ["host", "path"])
        .groupBy("pages", slot)
        .agg(f.min("ts").alias("first"), f.max("ts").alias("last"))
        .collect()
    )
    times: dict[int, list[tuple[float, float]]] = {number: [] for number in policy.watched_sets()}
    for row in seen:
        times[row["pages"]].append((row["first"], row["last"]))
    return {number: Accesses(found) for number, found in times.items()}


def samples(
    lines: DataFrame, verdicts: Sequence[Verdict], limits: Limits, response: str, outside: Sequence[str]
) -> dict[Verdict, list[str]]:
    """A few lines, by ``rid``, that show each of the given violations; one query for all of them."""
    chosen = [verdict for verdict in verdicts if verdict.evidence is not None and verdict.key is not None][:SAMPLED_MAX]
    if not chosen:
        return {}
    marks = f.array_compact(
        f.array(*(f.when(_shows(verdict, limits, response, outside), f.lit(at)) for at, verdict in enumerate(chosen)))
    )
    shown = lines.where(f.col("cause").isNull()).select("at", "rid", f.explode(marks).alias("verdict"))
    order = Window.partitionBy("verdict").orderBy("at", "rid")
    rows = shown.withColumn("number", f.row_number().over(order)).where(f.col("number") <= SAMPLE).collect()
    found: dict[Verdict, list[str]] = {}
    for row in sorted(rows, key=lambda row: (row["verdict"], row["number"])):
        found.setdefault(chosen[row["verdict"]], []).append(row["rid"])
    return found


def _shows(verdict: Verdict, limits: Limits, response: str, outside: Sequence[str]) -> Column:
    key, evidence = verdict.key, verdict.evidence
    assert key is not None
    assert evidence is not None
    decision = f.col("decision")
    took = f.col("total_ms") if response == "total" else f.col("service_ms")
    what = {
        "lost": (decision == "expired") | ((decision == "denied") & (f.col("status") != 429)),
        "served": decision == "served",
        "waited": f.col("queue_ms") > evidence.limit_ms,
        "slow": (decision == "served") & (took > evidence.limit_ms),
    }[evidence.what]
    begin, end = key.window_s, key.window_s + limits.window_s
    conditions = [
        what,
        f.floor(f.col("at") / limits.slot_s) * limits.slot_s >= begin,
        f.floor(f.col("at") / limits.slot_s) * limits.slot_s < end,
        f.col("class").isin(*evidence.classes),
    ]
    if key.policy != EVERY:
        conditions.append(f.col("policy") == key.policy)
    if key.scope:
        conditions.append((f.col("node") == key.scope) & f.col("view").isin(*outside))
    return reduce(lambda one, other: one & other, conditions)


def twice(lines: DataFrame) -> tuple[list[tuple[str, list[str]]], int]:
    """Requests that ended more than once, some of them with what the lines say, and how many there are."""
    ended = lines.where(
        f.col("cause").isNull()
        & f.col("decision").isin("served", "denied", "expired", "failed")
        & (f.col("rid") != "")
        & (f.col("method") != "-")
    )
    # Numbers are quicker to shuffle than texts; what they bring up is then compared by the texts themselves.
    hashes = ended.groupBy(f.xxhash64("rid").alias("hash")).count().where("count > 1").limit(PAGES_MAX).collect()
    if not hashes:
        return [], 0
    suspects = ended.where(f.xxhash64("rid").isin(*(row["hash"] for row in hashes[: 10 * TWICE_MAX])))
    said = suspects.groupBy("rid").agg(
        f.sort_array(f.collect_list(f.concat_ws(" at ", "decision", "node"))).alias("said")
    )
    rows = said.where(f.size("said") > 1).orderBy("rid").limit(TWICE_MAX).collect()
    return [(row["rid"], list(row["said"])) for row in rows], len(hashes) if rows else 0


def set_aside(lines: DataFrame, target: str) -> None:
    """The bad lines as JSON: file, cause, and the line as far as it is known."""
    fields: list[Column] = [
        f.col("file"),
        f.col("cause"),
        f.coalesce("bad", f.to_json(f.struct(*_known()))).alias("line"),
    ]
    lines.where(f.col("cause").isNotNull()).select(*fields).write.mode("overwrite").json(target)


def _known() -> list[Column]:
    return [f.col(name) for name in ("ts", "rid", "node", "class", "decision", "status", "bytes", "queue_ms")]
