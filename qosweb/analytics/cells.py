"""One pass over the lines: sums by slot, policy, view, node and class, from which nearly all other tables follow.

A slot is contended if somebody was denied for lack of capacity, or expired, or waited. The sums of a window keep the
contended slots apart. Only sums and maxima: Spark does these in generated code, without objects per group, and sums of
parts of a log can be added up to those of the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as f

from qosweb.analytics.policies import EVERY
from qosweb.analytics.rows import Cell, Part, PartKey
from qosweb.analytics.situations import MIXED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from qosweb.analytics.rows import Limits
    from qosweb.analytics.situations import Situations

TOO_MANY = 429  # a bound on the client itself

_COUNTS = ("served", "denied", "expired", "failed", "refused", "redirected", "forwarded")
_SUMS = (*_COUNTS, "sent_bytes", "waited")
_MAXIMA = ("size_max", "wait_ms_max")
_KEYS = ("slot", "policy", "view", "node", "class", "cause", "file")


def slots(
    lines: DataFrame, limits: Limits, responses_ms: Sequence[int], *, one_policy: bool, response: str = "service"
) -> DataFrame:
    """Sums by slot, policy, view, node, class; bad lines by file and cause."""
    decision, status = f.col("decision"), f.col("status")

    def count(condition: Column) -> Column:
        return f.sum(f.when(condition, 1).otherwise(0))

    ended = decision.isin("served", "denied", "expired", "failed")
    denied = decision == "denied"
    sums = {
        "served": count(decision == "served"),
        "denied": count(denied & (status != TOO_MANY)),
        "expired": count(decision == "expired"),
        "failed": count(decision == "failed"),
        "refused": count(denied & (status == TOO_MANY)),
        "redirected": count(decision == "redirected"),
        "forwarded": count(decision == "forwarded"),
        "waited": count(ended & (f.col("queue_ms") >= limits.waited_ms)),
        "sent_bytes": f.sum(f.when(decision.isin("served", "failed"), f.col("bytes")).otherwise(0)),
        "size_max": f.max(f.when(decision.isin("served", "failed"), f.col("bytes")).otherwise(0)),
        "wait_ms_max": f.max(f.when(ended, f.col("queue_ms")).otherwise(0.0)),
    }
    measured = f.col("total_ms") if response == "total" else f.col("service_ms")
    for limit_ms in responses_ms:
        sums[_slow(limit_ms)] = count((decision == "served") & (measured > limit_ms + limits.slack_ms))
    # What is wrong with a line is asked once: its sums mean nothing, but they are in groups of their own.
    return lines.groupBy(
        f.floor(f.col("at") / limits.slot_s).alias("slot"),
        (f.lit(EVERY) if one_policy else f.coalesce("policy", f.lit(""))).alias("policy"),
        f.coalesce("view", f.lit("")).alias("view"),
        "node",
        "class",
        "cause",
        "file",
    ).agg(f.count(f.lit(1)).alias("lines"), *(total.alias(name) for name, total in sums.items()))


def _slow(limit_ms: int) -> str:
    return f"slow_{limit_ms}"


def schema(responses_ms: Sequence[int]) -> str:
    """Of what ``slots`` makes."""
    keys = ["slot long", *(f"{name} string" for name in _KEYS[1:])]
    sums = [f"{name} long" for name in ("lines", *_SUMS, *map(_slow, responses_ms))]
    return ", ".join([*keys, *sums, "size_max long", "wait_ms_max double"])


def added_up(of_slots: DataFrame, responses_ms: Sequence[int]) -> DataFrame:
    """The sums of several parts of a log as those of the whole; a limit that a part did not know was not in force."""
    sums = ("lines", *_SUMS, *map(_slow, responses_ms))
    return of_slots.groupBy(*_KEYS).agg(
        *(f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in sums),
        *(f.max(name).alias(name) for name in _MAXIMA),
    )


class Survey(NamedTuple):
    """What the slots hold, before anything is judged."""

    bad: list[tuple[str, str, int]]  # file, cause, lines
    classes: dict[tuple[str, str], int]  # lines by policy and class
    nodes: frozenset[str]
    first_slot: int
    last_slot: int

    @property
    def requests(self) -> int:
        return sum(self.classes.values())


def survey(of_slots: DataFrame) -> Survey:
    """One look at all slots."""
    rows = (
        of_slots.groupBy("policy", "class", "node", "cause", "file")
        .agg(f.sum("lines").alias("lines"), f.min("slot").alias("first"), f.max("slot").alias("last"))
        .collect()
    )
    known = [row for row in rows if row["cause"] is None]
    classes: dict[tuple[str, str], int] = {}
    for row in known:
        at = row["policy"], row["class"]
        classes[at] = classes.get(at, 0) + row["lines"]
    return Survey(
        sorted((row["file"], row["cause"], row["lines"]) for row in rows if row["cause"] is not None),
        dict(sorted(classes.items())),
        frozenset(row["node"] for row in known),
        min((row["first"] for row in known), default=0),
        max((row["last"] for row in known), default=-1),
    )


def good(of_slots: DataFrame, outside: Sequence[str]) -> DataFrame:
    """Of good lines, with their scope. ``outside``: views that are not primary."""
    scope = f.when(f.col("view").isin(*outside), f.col("node")).otherwise("") if outside else f.lit("")
    return of_slots.where(f.col("cause").isNull()).drop("cause", "file").withColumn("scope", scope)


def parts(
    spark: SparkSession,
    of_slots: DataFrame,
    situations: Mapping[str, Situations],
    limits: Limits,
    responses_ms: Sequence[int],
) -> list[Part]:
    """What each window shows of each class, from the slots of good lines under policies that are known."""
    spans = [
        (policy, span.first, span.last, span.situation)
        for policy, found in situations.items()
        for span in found.spans
        if span.situation != MIXED
    ]
    if not spans:
        return []
    times = spark.createDataFrame(spans, "policy string, first long, last long, situation int")
    busy = of_slots.groupBy("slot", "scope").agg(
        (f.sum(f.col("denied") + f.col("expired") + f.col("waited")) > 0).alias("busy")
    )
    window = (f.floor(f.col("slot") * limits.slot_s / limits.window_s) * limits.window_s).alias("window_s")
    known = (
        of_slots.join(f.broadcast(times), "policy")
        .where(f.col("slot").between(f.col("first"), f.col("last")))
        .join(f.broadcast(busy), ["slot", "scope"])
    )
    known = known.withColumn("window_s", window)
    key = ("window_s", "policy", "scope", "situation")
    is_busy = f.col("busy")
    slow = [_slow(limit_ms) for limit_ms in responses_ms]
    names = [name for name in _SUMS if name not in ("redirected", "forwarded", "waited")]
    cells = known.groupBy(*key, "class").agg(
        *(f.sum(name).alias(name) for name in (*names, *slow)),
        f.max("size_max").alias("size_max"),
        f.max("wait_ms_max").alias("wait_ms_max"),
        *(
            f.sum(f.when(is_busy, f.col(name)).otherwise(0)).alias(f"busy_{name}")
            for name in ("served", "failed", "denied", "expired", "sent_bytes")
        ),
    )
    spent = known.groupBy(*key).agg(
        f.count_distinct(f.when(is_busy, f.col("slot"))).alias("busy"),
        (f.max("slot") - f.min("slot") + 1).alias("span"),
    )
    found: dict[PartKey, list[Cell]] = {}
    for row in cells.collect():
        at = PartKey(row["window_s"], row["policy"], row["scope"], row["situation"])
        found.setdefault(at, []).append(
            Cell(
                at, row["class"], row["served"], row["denied"], row["expired"], row["failed"], row["refused"],
                row["sent_bytes"], row["size_max"], row["wait_ms_max"], tuple(row[name] for name in slow),
                row["busy_served"], row["busy_failed"], row["busy_denied"] + row["busy_expired"],
                row["busy_sent_bytes"],
            )
        )  # fmt: skip
    made = []
    alone: dict[tuple[int, str], int] = {}
    lengths = {}
    for row in spent.collect():
        at = PartKey(row["window_s"], row["policy"], row["scope"], row["situation"])
        alone[at.window_s, at.scope] = alone.get((at.window_s, at.scope), 0) + 1
        lengths[at] = (row["busy"] * limits.slot_s, row["span"] * limits.slot_s)
    for at in sorted(found):
        busy_s, span_s = lengths[at]
        seconds = limits.window_s if alone[at.window_s, at.scope] == 1 else span_s
        made.append(Part(at, float(seconds), float(busy_s), tuple(sorted(found[at], key=lambda cell: cell.name))))
    return made
