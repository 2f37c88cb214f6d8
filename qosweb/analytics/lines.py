"""Log lines as a DataFrame, one form for all formats: fields with their types, and what is wrong with a line.

``cause`` is null for a good line. A bad one keeps its text in ``bad`` and its file in ``file``; it is counted and set
aside, never dropped silently. A request counts at the moment it was decided, ``ts`` and its wait; that puts what was
served and what was denied on one axis. Nothing here runs Python on a row.
Neighbours: ``sources`` finds the files, ``cells`` adds the lines up.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql import types as t

from qosweb.analytics.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from qosweb.analytics.sources import Sources

DECISIONS = ("served", "denied", "expired", "redirected", "forwarded", "failed")
EVENTS_MAX = 1_000_000

_TYPES: dict[str, t.DataType] = {
    "ts": t.DoubleType(),
    "rid": t.StringType(),
    "node": t.StringType(),
    "view": t.StringType(),
    "policy": t.StringType(),
    "client": t.StringType(),
    "method": t.StringType(),
    "host": t.StringType(),
    "path": t.StringType(),
    "class": t.StringType(),
    "decision": t.StringType(),
    "status": t.IntegerType(),
    "bytes": t.LongType(),
    "queue_ms": t.DoubleType(),
    "service_ms": t.DoubleType(),
    "total_ms": t.DoubleType(),
    "event": t.StringType(),
}
REQUEST_FIELDS = tuple(name for name in _TYPES if name != "event")
_EVENT_TYPES: dict[str, t.DataType] = {
    "event": t.StringType(),
    "ts": t.DoubleType(),
    "node": t.StringType(),
    "index": t.LongType(),
    "view": t.StringType(),
    "members": t.ArrayType(t.StringType()),
    "primary": t.BooleanType(),
    "policy": t.StringType(),
    "text": t.StringType(),
    "of": t.StringType(),
    "capacity_bps": t.LongType(),
}
_COMBINED = (
    r"^(\S+) \S+ .*?\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "
    r'"((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-)(?: .*)?$'
)


def _struct(types: dict[str, t.DataType]) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in types.items()])


REQUEST_SCHEMA = _struct(_TYPES)
EVENT_SCHEMA = _struct(_EVENT_TYPES)


def read_lines(spark: SparkSession, sources: Sources) -> DataFrame:
    """Requests, with ``cause``, ``bad``, ``file`` and the moment ``at``.

    Event lines are left out, and lines of connections on which no request could be read (method ``-``).
    """
    frames = []
    if sources.json:
        schema = t.StructType([*REQUEST_SCHEMA.fields, t.StructField("bad", t.StringType())])
        raw = spark.read.schema(schema).option("columnNameOfCorruptRecord", "bad").json(list(sources.json))
        frames.append(_judged(raw))
    if sources.combined:
        frames.append(_judged(_combined(spark.read.text(list(sources.combined)))))
    if sources.parquet:
        raw = spark.read.parquet(*sources.parquet)
        missing = [name for name in _TYPES if name not in raw.columns]
        for name in missing:
            raw = raw.withColumn(name, f.lit(None).cast(_TYPES[name]))
        frames.append(_judged(raw.withColumn("bad", f.lit(None).cast("string"))))
    return reduce(lambda one, other: one.unionByName(other), frames)


def read_events(spark: SparkSession, sources: Sources) -> list[Event]:
    """All event lines, in no order. Lines without the word are not parsed."""
    found: list[Event] = []
    if sources.json:
        lines = spark.read.text(list(sources.json)).where(f.col("value").contains('"event":'))
        parsed = lines.select(f.from_json("value", EVENT_SCHEMA).alias("e")).select("e.*")
        found += _collect(parsed)
    if sources.parquet:
        raw = spark.read.parquet(*sources.parquet)
        if "event" in raw.columns:
            for name, kind in _EVENT_TYPES.items():
                if name not in raw.columns:
                    raw = raw.withColumn(name, f.lit(None).cast(kind))
            found += _collect(raw.select(*_EVENT_TYPES))
    return found


def _collect(events: DataFrame) -> list[Event]:
    rows = events.where(f.col("event").isNotNull() & f.col("ts").isNotNull()).limit(EVENTS_MAX).collect()
    return [
        Event(
            row["event"], row["ts"], row["of"] or row["node"] or "", row["index"], row["view"] or "",
            tuple(member for member in row["members"] or () if member is not None), bool(row["primary"]),
            row["policy"] or "", row["text"] or "", row["capacity_bps"] or 0,
        )
        for row in rows
    ]  # fmt: skip


def _judged(raw: DataFrame) -> DataFrame:
    """With ``cause``: what is wrong with a line, null if nothing is."""
    numbers = ("bytes", "queue_ms", "service_ms", "total_ms")
    bad, trimmed = f.col("bad"), f.rtrim("bad")
    cause = f.when(
        bad.isNotNull(),
        f.when(~f.ltrim("bad").startswith("{"), "not a JSON object")
        .when(~trimmed.endswith("}"), "cut off")
        .when(f.coalesce("rid", "node", "class", "decision", "event").isNull(), "not valid JSON")
        .otherwise("a field of the wrong type"),
    )
    for name in ("ts", "rid", "node", "class", "decision", "status", *numbers):
        cause = cause.when(f.col("event").isNull() & f.col(name).isNull(), f"no field '{name}'")
    is_request = f.col("event").isNull()
    cause = cause.when(is_request & ~f.col("decision").isin(*DECISIONS), "unknown decision")
    out_of_range = reduce(lambda one, other: one | other, (~(f.col(name) >= 0) for name in ("ts", *numbers)))
    cause = cause.when(is_request & out_of_range, "a number out of range")
    columns: list[Column] = [f.col(name) for name in REQUEST_FIELDS]
    return (
        raw.withColumn("cause", cause)
        .where((is_request & ~f.col("method").eqNullSafe("-")) | f.col("bad").isNotNull())
        .select(
            *columns,
            "cause",
            "bad",
            f.col("_metadata.file_path").alias("file"),
            (f.col("ts") + f.col("queue_ms") / 1000).alias("at"),
        )
    )


def _combined(raw: DataFrame) -> DataFrame:
    """What the combined format can tell: no class, no times, and of decisions only what the status shows."""

    def group(number: int) -> Column:
        return f.regexp_extract("value", _COMBINED, number)

    is_line = f.col("value").rlike(_COMBINED)
    status = group(4).cast("int")
    decision = (
        f.when(status.isin(429, 503), "denied").when(status.isin(302, 307), "redirected")
        .when(status.isin(499, 500, 502, 504), "failed").otherwise("served")
    )  # fmt: skip
    values: dict[str, Column] = {
        "ts": f.unix_timestamp(f.try_to_timestamp(group(2), f.lit("dd/MMM/yyyy:HH:mm:ss Z"))).cast("double"),
        "rid": f.lit(""),
        "node": f.lit("-"),
        "view": f.lit(""),
        "policy": f.lit(""),
        "client": group(1),
        "method": f.split(group(3), " ").getItem(0),
        "host": f.lit(""),
        "path": f.split(f.split(group(3), " ").getItem(1), r"\?").getItem(0),
        "class": f.lit("-"),
        "decision": decision,
        "status": status,
        "bytes": f.coalesce(f.expr(f"try_cast(regexp_extract(value, '{_sql(_COMBINED)}', 5) as long)"), f.lit(0)),
        "queue_ms": f.lit(0.0),
        "service_ms": f.lit(0.0),
        "total_ms": f.lit(0.0),
        "event": f.lit(None).cast("string"),
    }
    bad = f.when(~is_line, f.col("value"))
    blank = f.trim("value") == ""
    columns = [f.when(is_line, value).alias(name) for name, value in values.items()]
    return raw.where(~blank).select(*columns, bad.alias("bad"), "_metadata")


def _sql(pattern: str) -> str:
    return pattern.replace("\\", "\\\\").replace("'", "\\'")
