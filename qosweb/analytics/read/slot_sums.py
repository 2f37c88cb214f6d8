"""Sums of the log lines by time slot, policy, view, node and class: nearly all other tables are computed from them.

Only sums and maxima: Spark computes these in generated code, without objects per group, and the sums of parts of a log
add up to those of the whole log. A key may have several rows; every reader adds them up.
Neighbours: ``line_scan`` computes them in one pass over the lines; ``window_parts`` groups them into windows on the
driver.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as f

from qosweb.analytics.read.tables import OutcomeCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import Column, DataFrame, Row

    from qosweb.analytics.read.rows import AnalysisLimits

TOO_MANY = 429  # Too Many Requests: the client's own limit

GAVE_UP = 499  # the client left before the response
BEGUN_MS = 1.0  # a shorter service means that the request was not started

ENDED = ("served", "denied", "expired", "failed")
COUNTS = ("served", "denied", "expired", "failed", "gave_up", "refused", "redirected", "forwarded", "blocked")
_SUMS = (*COUNTS, "sent_bytes", "waited")
_WORK = "work"  # slot time at upstream servers, in milliseconds
_MAXIMA = ("size_max", "wait_ms_max", "work_max")
_MASKS = ("backlog", "backlog_before")  # see ``backlog``
SLOT_ROW = (
    "slot", "policy", "scope", "class", "served", "denied", "expired", "failed", "gave_up", "refused", "sent_bytes",
    "waited", "size_max", "wait_ms_max", "resource", _WORK, "work_max", *_MASKS,
)  # fmt: skip
KEYS = ("slot", "policy", "view", "node", "class", "cause", "file", "resource")
BINS = 50  # of a slot


def window_of(slot: Column, limits: AnalysisLimits) -> Column:
    """The begin of the window of a slot, in seconds."""
    return f.floor(slot * limits.slot_s / limits.window_s) * limits.window_s


def kind(limits: AnalysisLimits) -> Column:
    """The index in ``COUNTS`` of the counter for a good line."""
    decision = f.col("decision")
    kinds = {
        "served": decision == "served",
        "refused": (decision == "denied") & (f.col("status") == TOO_MANY),
        "denied": decision == "denied",
        "expired": decision == "expired",
        "gave_up": has_given_up(limits),
        "failed": decision == "failed",
        "redirected": decision == "redirected",
        "blocked": decision == "blocked",
    }
    found = f.lit(COUNTS.index("forwarded"))
    for name, condition in reversed(kinds.items()):
        found = f.when(condition, COUNTS.index(name)).otherwise(found)
    return found


def slow(limits: AnalysisLimits, responses_ms: Sequence[int], response: str) -> dict[str, Column]:
    """Conditions for requests that were served, but slower than each limit; by the name of the counter."""
    measured = f.col("total_ms") if response == "total" else f.col("service_ms")
    return {
        _slow(limit_ms): (f.col("decision") == "served") & (measured > limit_ms + limits.slack_ms)
        for limit_ms in responses_ms
    }


def has_given_up(limits: AnalysisLimits) -> Column:
    """The client waited, and left before its request was started."""
    return (
        (f.col("decision") == "failed")
        & (f.col("status") == GAVE_UP)
        & (f.col("bytes") == 0)
        & (f.col("queue_ms") >= limits.waited_ms)
        & (f.col("service_ms") < BEGUN_MS)
    )


def backlog(limits: AnalysisLimits) -> dict[str, Column]:
    """The time for which a request waited, as bits of a mask: one for each bin that its wait covers completely.

    One mask is for the slot of its decision, one for the slot before. Requests of one class cover a time together, so
    the union of their masks shows when the class had a request waiting. It is a lower bound: a bin that a wait covers
    in part does not count, nor does the part of a wait more than two slots ago.
    """
    bin_s = limits.slot_s / BINS
    first, end = f.ceil(f.col("ts") / bin_s), f.floor(f.col("at") / bin_s)
    begin = f.floor(f.col("at") / limits.slot_s) * BINS
    waits = f.col("queue_ms") >= 1000 * bin_s

    def bits(since: Column, until: Column, base: Column) -> Column:
        count, place = (until - since).cast("int"), (since - base).cast("int")
        one = f.lit(1).cast("long")
        mask = f.call_function("shiftleft", f.call_function("shiftleft", one, count) - 1, place)
        return f.when(waits & (count > 0), mask).otherwise(f.lit(0).cast("long"))

    earlier = begin - BINS
    return {
        "backlog": bits(f.greatest(first, begin), end, begin),
        "backlog_before": bits(f.greatest(first, earlier), f.least(end, begin), earlier),
    }


def _slow(limit_ms: int) -> str:
    return f"slow_{limit_ms}"


def schema(responses_ms: Sequence[int]) -> str:
    """The schema of ``LineScan.slots``."""
    keys = ["slot long", *(f"{name} string" for name in KEYS[1:-1])]
    counts = [f"{name} long" for name in ("lines", *_SUMS, *map(_slow, responses_ms))]
    of_pools = ["resource string", f"{_WORK} double", "work_max double", *(f"{name} long" for name in _MASKS)]
    return ", ".join([*keys, *counts, "size_max long", "wait_ms_max double", *of_pools])


def added_up(of_slots: DataFrame, responses_ms: Sequence[int]) -> DataFrame:
    """Adds up the sums of several parts of a log; a limit that a part lacks was not in force there."""
    names = ("lines", *_SUMS, *map(_slow, responses_ms))
    return of_slots.groupBy(*KEYS).agg(
        *(f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in names),
        *(f.max(name).alias(name) for name in _MAXIMA),
        f.sum(_WORK).alias(_WORK),
        *(f.bit_or(name).alias(name) for name in _MASKS),
    )


class Survey(NamedTuple):
    """An overview of the slots, before anything is judged."""

    bad: list[tuple[str, str, int]]  # file, cause, lines
    classes: dict[tuple[str, str], int]  # lines by policy and class
    nodes: frozenset[str]
    first_slot: int
    last_slot: int
    outcomes: list[
        OutcomeCounts
    ]  # by window and class, window and node, node and class, class, node, and of everything

    @property
    def requests(self) -> int:
        return sum(self.classes.values())


def survey(of_slots: DataFrame, limits: AnalysisLimits) -> Survey:
    """One query over all slots: sums by window and class or node, by node, class and policy, and bad lines by file."""
    window = window_of(f.col("slot"), limits).alias("window_s")
    table = of_slots.select(window, *(f.col(name) for name in of_slots.columns))
    at = {name: f.col(name) for name in ("window_s", "node", "class", "policy", "cause", "file")}
    sets = (
        ("window_s", "class", "cause"),
        ("window_s", "node", "cause"),
        ("node", "class", "policy", "cause"),
        ("cause", "file"),
    )
    of_what = f.grouping_id().alias("of_what")
    totals = [f.sum(name).alias(name) for name in ("lines", *COUNTS, "sent_bytes")]
    rows = (
        table.groupingSets([[at[name] for name in one] for one in sets], *at.values())
        .agg(of_what, *totals, f.min("slot").alias("first"), f.max("slot").alias("last"))
        .collect()
    )
    in_windows, at_nodes, known, bad = (
        [row for row in rows if row["of_what"] == number and (row["cause"] is not None) == ("file" in one)]
        for one in sets
        for number in (grouping_number(one, tuple(at)),)
    )
    classes: Counter[tuple[str, str]] = Counter()
    for row in known:
        classes[row["policy"], row["class"]] += row["lines"]
    wrong: Counter[tuple[str, str]] = Counter()
    for row in bad:
        wrong[row["file"], row["cause"]] += row["lines"]
    return Survey(
        sorted((file, cause, lines) for (file, cause), lines in wrong.items()),
        dict(sorted(classes.items())),
        frozenset(row["node"] for row in known),
        min((row["first"] for row in known), default=0),
        max((row["last"] for row in known), default=-1),
        [
            *_outcomes(in_windows, "window_s", "class"),
            *_outcomes(at_nodes, "window_s", "node"),
            *(one for names in (("node", "class"), ("class",), ("node",), ()) for one in _outcomes(known, *names)),
        ],
    )


def grouping_number(chosen: tuple[str, ...], names: tuple[str, ...]) -> int:
    """SQL's grouping id of a set: a bit for each column that is not in it, the last column being the lowest bit."""
    return sum(1 << place for place, name in enumerate(reversed(names)) if name not in chosen)


def _outcomes(rows: Iterable[Row], *names: str) -> list[OutcomeCounts]:
    found: dict[tuple[int | str, ...], list[int]] = {}
    for row in rows:
        totals = found.setdefault(tuple(row[name] for name in names), [0] * (len(COUNTS) + 1))
        for place, name in enumerate((*COUNTS, "sent_bytes")):
            totals[place] += row[name]
    made = []
    for at, totals in found.items():
        key = dict(zip(names, at, strict=True))
        of = key.get("window_s"), key.get("node"), key.get("class")
        made.append(OutcomeCounts(*of, *totals))  # type: ignore[arg-type] # the key fields and ten sums
    return made


def by_slot(
    of_slots: DataFrame, slots: range, outside: Sequence[str], responses_ms: Sequence[int]
) -> list[tuple[int | str, ...]]:
    """``SLOT_ROW`` and the slow counters, of good lines; ``scope`` is the node if the view is not primary."""
    totals = (*(name for name in SLOT_ROW if name in _SUMS), *map(_slow, responses_ms))
    order = (*SLOT_ROW, *map(_slow, responses_ms))
    scope = f.when(f.col("view").isin(*outside), f.col("node")).otherwise("") if outside else f.lit("")
    rows = (
        of_slots.where(f.col("cause").isNull() & f.col("slot").between(slots.start, slots.stop - 1))
        .groupBy("slot", "policy", scope.alias("scope"), "class", f.coalesce("resource", f.lit("")).alias("resource"))
        .agg(
            *(f.coalesce(f.max(name), f.lit(0.0 if name != "size_max" else 0)).alias(name) for name in _MAXIMA),
            *(f.sum(name).alias(name) for name in totals),
            f.coalesce(f.sum(_WORK), f.lit(0.0)).alias(_WORK),
            *(f.coalesce(f.bit_or(name), f.lit(0)).alias(name) for name in _MASKS),
        )
    )
    return [tuple(row) for row in rows.select(*order).collect()]
