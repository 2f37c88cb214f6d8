"""Computes all aggregates in one Spark pass: sums by slot, latencies, pages, clients, duplicate request ids, events.

Parsing JSON dominates the cost; caching the lines for a second query costs as much again. So each line goes at once
into the groups of all queries. The result is small and is cached. The keys of all queries share a few columns, and the
outcome of a request is part of the key instead of a column of counts: the narrower a group, the faster the lookup.
Events travel along as text, so that no separate query has to find them.

A request id that ends in a number (``4f1c-781``) shares its group with the 63 ids next to it, one bit for each. If a
group has more lines than bits, one of its requests ended twice. Other ids have groups of their own.
Neighbours: ``slot_sums`` and ``tables`` continue from here, ``line_queries`` queries single lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from qosweb.analytics.read import slot_sums, tables
from qosweb.analytics.read.log_lines import EVENTS_MAX, as_text, event_in
from qosweb.analytics.read.policies import EVERY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from qosweb.analytics.read.rows import AnalysisLimits, LogEvent

DIGITS_MAX = 17
_AT = "\x1f"  # between a node and the upstream server that answered, in the key of a slot
_NOTHING, _NO_NUMBER = "no_text", "no_number"
_KEYS = ("how", "time", "who", "name", "policy", "view")
_QUESTIONS = {
    "slots": ("how", "slot", "place", "name", "policy", "view"),
    "waits": ("wait_step", "window_s", "who", "name", _NOTHING, _NOTHING),
    "services": ("service_step", "window_s", "who", "name", _NOTHING, _NOTHING),
    "pages": ("how_asked", _NO_NUMBER, "path", _NOTHING, _NOTHING, _NOTHING),
    "clients": ("how_asked", _NO_NUMBER, "client", _NOTHING, _NOTHING, _NOTHING),
    "names": ("is_named", "block", "stem", _NOTHING, _NOTHING, _NOTHING),
}
_NUMBER = {what: number for number, what in enumerate(_QUESTIONS)}
_NUMBER_BITS = 3
# The query number is not a key column but the lowest bits of ``how``: one column less to write, hash and compare. A
# line without ``how`` for a query does not take part in it.
_EACH_LINE_IN_ALL = f"""
    select * except (what) from {{lines}} unpivot include nulls (({", ".join(f"key_{name}" for name in _KEYS)})
    for what in ({", ".join(f"(how_{what}, {', '.join(rest)})" for what, (_, *rest) in _QUESTIONS.items())}))
    where key_how is not null
"""
# Values of ``how``: the outcome of a request, as an index of COUNTS; and lines that are no requests.
_BAD, _EVENT = -1, -2
_WAITED, _AT_ONCE = 16, 32  # flags: the request waited long, or did not wait at all
_SERVED = slot_sums.COUNTS.index("served")
_ENDED_MAX = slot_sums.COUNTS.index("refused")  # outcomes up to this index end a request
_SENT = tuple(slot_sums.COUNTS.index(name) for name in ("served", "failed", "gave_up"))
_OTHERWISE = _SERVED + 1  # pages and clients distinguish only served and not served


class LineScan:
    """``kept`` has the groups of all queries. The caller caches it; each table is a part of it."""

    def __init__(
        self, lines: DataFrame, limits: AnalysisLimits, responses_ms: Sequence[int], *, one_policy: bool, response: str
    ) -> None:
        self._limits, self._slow = limits, slot_sums.slow(limits, responses_ms, response)
        ready = _with_keys(with_names(lines), limits, one_policy=one_policy).select(
            *dict.fromkeys(name for of_question in _QUESTIONS.values() for name in of_question[1:]),
            *(_asked(what, f.col(of_question[0])).alias(f"how_{what}") for what, of_question in _QUESTIONS.items()),
            "bit",
            f.when(f.col("kind").isin(*_SENT), f.col("bytes")).otherwise(0).alias("sent_bytes"),
            f.when(_ended(), f.col("queue_ms")).otherwise(0.0).alias("wait_ms"),
            f.when(f.col("kind").isin(*_SENT) & (f.col("work") >= 0), f.col("work")).otherwise(0.0).alias("work"),
            *(
                f.when(_ended(), mask).otherwise(f.lit(0).cast("long")).alias(name)
                for name, mask in slot_sums.backlog(limits).items()
            ),
            *(f.when(is_slow, 1).otherwise(0).alias(name) for name, is_slow in self._slow.items()),
        )
        self.kept = (
            lines.sparkSession.sql(_EACH_LINE_IN_ALL, lines=ready)
            .groupBy(*(f"key_{name}" for name in _KEYS))
            .agg(
                f.count(f.lit(1)).alias("lines"),
                f.sum("sent_bytes").alias("sent_bytes"),
                f.max("sent_bytes").alias("size_max"),
                f.max("wait_ms").alias("wait_ms_max"),
                f.bit_or("bit").alias("bits"),
                f.sum("work").alias("work"),
                f.max("work").alias("work_max"),
                f.bit_or("backlog").alias("backlog"),
                f.bit_or("backlog_before").alias("backlog_before"),
                *(f.sum(name).alias(name) for name in self._slow),
            )
        )

    def slots(self) -> DataFrame:
        """Sums by slot, policy, view, node, class, several rows for each key; bad lines by file and cause."""
        how, lines = f.col("how"), f.col("lines")
        is_good, kind = how >= 0, how.bitwiseAND(_WAITED - 1)
        keys = {
            "slot": f.col("key_time"),
            "policy": f.col("key_policy"),
            "view": f.col("key_view"),
            "node": f.when(is_good, _node(f.col("key_who"))),
            "class": f.when(is_good, f.col("key_name")),
            "cause": f.when(how == _BAD, f.col("key_who")),
            "file": f.when(how == _BAD, f.col("key_name")),
            "resource": f.when(is_good & f.col("key_who").contains(_AT), f.substring_index("key_who", _AT, -1)),
        }
        counts = {
            name: f.when(is_good & (kind == number), lines).otherwise(0) for number, name in enumerate(slot_sums.COUNTS)
        } | {"waited": f.when(is_good & _has(_WAITED), lines).otherwise(0)}
        return (
            self._part("slots")
            .where(how != _EVENT)
            .select(
                *(column.alias(name) for name, column in (keys | {"lines": lines} | counts).items()),
                "sent_bytes", "size_max", "wait_ms_max", "work", "work_max", "backlog", "backlog_before", *self._slow,
            )
        )  # fmt: skip

    def times(self) -> DataFrame:
        """Histogram of waits and service times by window, node, class and bucket, several rows for each key.

        Requests that did not wait are counted from the slots, not in a separate group of waits.
        """
        is_slot, time, how = f.col("what") == _NUMBER["slots"], f.col("key_time"), f.col("how")
        return (
            self._part("slots", "waits", "services")
            .where(~is_slot | ((how >= 0) & _has(_AT_ONCE)))
            .select(
                f.when(is_slot, slot_sums.window_of(time, self._limits)).otherwise(time).alias("window_s"),
                _node(f.col("key_who")).alias("node"),
                f.col("key_name").alias("name"),
                f.when(f.col("what") == _NUMBER["services"], 1).otherwise(0).alias("what"),
                f.when(is_slot, 0).otherwise(how).cast("int").alias("step"),
                f.col("lines").alias("requests"),
            )
        )

    def asked_for(self) -> DataFrame:
        """Number of requests for each page, and of each client."""
        is_served = f.col("how") == _SERVED
        return (
            self._part("pages", "clients")
            .groupBy(
                f.when(f.col("what") == _NUMBER["pages"], "page").otherwise("client").alias("what"),
                f.col("key_who").alias("name"),
            )
            .agg(
                f.sum("lines").alias("requests"),
                f.sum(f.when(is_served, f.col("lines")).otherwise(0)).alias("served"),
                f.sum(f.when(is_served, f.col("sent_bytes")).otherwise(0)).alias("sent_bytes"),
            )
        )

    def names(self) -> DataFrame:
        """One row: ``named``, the number of lines that end a request and have its rid; ``too_many``, the surplus."""
        named = f.coalesce(f.sum("lines"), f.lit(0))
        too_many = f.coalesce(f.sum(f.col("lines") - f.bit_count("bits")), f.lit(0))
        return self._part("names").agg(named.alias("named"), too_many.alias("too_many"))

    def suspects(self) -> DataFrame:
        """Groups of request ids with more lines than ids."""
        too_many = f.col("lines") - f.bit_count("bits")
        return (
            self._part("names")
            .where(too_many > 0)
            .select(f.col("key_who").alias("stem"), f.col("key_time").alias("block"), too_many.alias("too_many"))
        )

    def events(self) -> list[LogEvent]:
        """All events, in no order; if there are more than ``EVENTS_MAX``, at least one more than that."""
        told = self._part("slots").where(f.col("how") == _EVENT).select("key_who", "lines").limit(EVENTS_MAX + 1)
        return [
            event
            for row in told.collect()
            if (event := event_in(row["key_who"])) is not None
            for _ in range(row["lines"])
        ]

    def _part(self, *questions: str) -> DataFrame:
        """The groups of some queries.

        No unions of parts: Spark would not see that both sides are cached, and would read the lines again.
        """
        how = f.col("key_how")
        return (
            self.kept.withColumn("what", how.bitwiseAND((1 << _NUMBER_BITS) - 1))
            .where(f.col("what").isin(*(_NUMBER[question] for question in questions)))
            .withColumn("how", f.shiftright(how, _NUMBER_BITS))
        )


def with_names(lines: DataFrame) -> DataFrame:
    """Adds the group of a request id: common part ``stem``, number ``block`` (or null), and the ``bit`` of the id.

    Step by step, because a value in its own column is computed once per line. Lengths are in bytes, which is cheaper
    than in characters; digits have one byte each.
    """
    last, number = f.col("name_end"), f.col("name_number")
    is_numbered = number >= 0
    bit = f.call_function("shiftleft", f.lit(1).cast("long"), number.bitwiseAND(63).cast("int"))
    before = f.substring(f.col("rid").cast("binary"), f.lit(1), f.octet_length("rid") - f.octet_length(last))
    return (
        lines.withColumn("name_end", f.substring_index("rid", "-", -1))
        .withColumn("name_number", f.when(f.octet_length(last) <= DIGITS_MAX, last.try_cast("long")))
        .withColumns(
            {
                "stem": f.when(is_numbered, before.cast("string")).otherwise(f.col("rid")),
                "block": f.when(is_numbered, f.shiftright(number, 6)),
                "bit": f.when(is_numbered, bit).otherwise(f.lit(1).cast("long")),
            }
        )
        .drop("name_end", "name_number")
    )


def _asked(what: str, how: Column) -> Column:
    """``how`` with the number of a query in its lowest bits."""
    return f.shiftleft(how, _NUMBER_BITS).bitwiseOR(f.lit(_NUMBER[what]).cast("long"))


def _has(bit: int) -> Column:
    return f.col("how").bitwiseAND(bit) != 0


def _node(place: Column) -> Column:
    """The node of a place."""
    return f.substring_index(place, _AT, 1)


def _ended() -> Column:
    return f.col("kind").between(0, _ENDED_MAX)


def _with_keys(lines: DataFrame, limits: AnalysisLimits, *, one_policy: bool) -> DataFrame:
    """Adds the columns of ``_QUESTIONS``. A bad line counts by cause and file, an event by its text; both only once.

    The text fields of a line are examined once, for its ``kind``; everything else uses that number.
    """
    is_bad, is_event = f.col("cause").isNotNull(), f.col("event").isNotNull()
    is_good, is_served = f.col("kind") >= 0, f.col("kind") == _SERVED
    policy = f.lit(EVERY) if one_policy else f.coalesce("policy", f.lit(""))
    wait_ms = f.col("queue_ms")
    is_at_once = wait_ms < tables.SHORTEST_MS
    waited = f.when(_ended() & (wait_ms >= limits.waited_ms), _WAITED).otherwise(0)
    at_once = f.when(_ended() & is_at_once, _AT_ONCE).otherwise(0)
    slot = f.floor(f.col("at") / limits.slot_s)
    who = f.when(is_good, f.col("node")).when(is_bad, f.col("cause")).otherwise(as_text())
    at_server = f.concat(f.col("node"), f.lit(_AT), f.col("resource"))
    kind = f.when(is_bad, _BAD).when(is_event, _EVENT).otherwise(slot_sums.kind(limits))
    return (
        lines.withColumn("kind", kind)
        .withColumn("slot", f.when(is_good, slot))
        .withColumns(
            {
                "how": (f.col("kind") + waited + at_once).cast("long"),
                "how_asked": f.when(is_good, f.when(is_served, _SERVED).otherwise(_OTHERWISE)).cast("long"),
                "window_s": slot_sums.window_of(f.col("slot"), limits),
                "who": who,
                "place": f.when(is_good & f.col("resource").isNotNull(), at_server).otherwise(who),
                "name": f.when(is_good, f.col("class")).when(is_bad, f.col("file")),
                "policy": f.when(is_good, policy),
                "view": f.when(is_good, f.coalesce("view", f.lit(""))),
                "wait_step": f.when(_ended() & ~is_at_once, tables.step(wait_ms)).cast("long"),
                "service_step": f.when(is_served, tables.step(f.col("service_ms"))).cast("long"),
                "is_named": f.when(_ended() & (f.col("rid") != ""), 0).cast("long"),
                _NOTHING: f.lit(None).cast("string"),
                _NO_NUMBER: f.lit(None).cast("long"),
            }
        )
    )
