"""Parses log lines of all formats into one DataFrame schema, and classifies bad lines.

``cause`` is null for a good line. A bad line keeps its text in ``bad`` and its file in ``file``; it is counted and
written to the folder of bad lines, never dropped silently. A request counts at the time of its decision, ``ts`` plus
its wait, which puts served and denied requests on one time axis. No Python code runs per row. Requests and events are
read in one pass. Fields that only events have are read as text, so that a request with such a field stays valid.
Neighbours: ``sources`` finds the files, ``slot_sums`` aggregates the lines, ``log_tail`` copies those of growing logs.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

from qosweb.analytics.read.rows import LogEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from qosweb.analytics.read.sources import Sources

DECISIONS = ("served", "denied", "expired", "redirected", "forwarded", "failed", "blocked")
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
    "reason": t.StringType(),
    "event": t.StringType(),
    "resource": t.StringType(),
    "work": t.DoubleType(),
}

LIMITED_BY = "limited_by"  # the field ``cause`` of an event; the column ``cause`` is that of a bad line
OF_EVENTS = (
    "index", "members", "primary", "text", "of", "capacity_bps", "repeated", "pool", "limit", LIMITED_BY,
    "request_bytes",
)  # besides ts, node, view, policy, resource # fmt: skip
_NEEDED = {
    "view": ("view", "members", "primary"),
    "policy": ("policy", "text"),
    "capacity": ("capacity_bps",),
    "resource": ("resource", "pool", "limit"),
}
_WHOLE = "[0-9]{1,18}"
_FORMS = {
    "index": _WHOLE, "members": r"\[.*\]", "primary": "true|false", "capacity_bps": _WHOLE, "limit": _WHOLE,
    "request_bytes": _WHOLE,
}  # fmt: skip
_OF_ALL = ("ts", "node", "view", "policy", "resource")
_COMBINED = (
    r"^(\S+) \S+ .*?\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "
    r'"((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-)(?: .*)?$'
)


def _logged(name: str) -> str:
    """The name of a column in the log."""
    return "cause" if name == LIMITED_BY else name


REQUEST_SCHEMA = t.StructType([t.StructField(name, kind) for name, kind in _TYPES.items()])
LINE_SCHEMA = t.StructType(
    [*REQUEST_SCHEMA.fields, *(t.StructField(_logged(name), t.StringType()) for name in (*OF_EVENTS, "bad"))]
)
_WITHOUT_TEXT = t.StructType([field for field in LINE_SCHEMA.fields if field.name != "bad"])


def read_lines(spark: SparkSession, sources: Sources, *, with_text: bool = True) -> DataFrame:
    """Reads requests and events, with ``cause``, ``bad``, ``file`` and the decision time ``at``.

    Lines of connections on which no request could be read (method ``-``) are dropped. Without the text of bad lines
    JSON is parsed faster by a sixth. A line that is not JSON then appears as one without fields: also bad, but with
    another cause, and ``bad`` is always null. A field of a wrong type appears as missing.
    """
    frames = []
    if sources.json:
        schema = LINE_SCHEMA if with_text else _WITHOUT_TEXT
        raw = spark.read.schema(schema).option("columnNameOfCorruptRecord", "bad").json(list(sources.json))
        frames.append(with_cause(raw if with_text else raw.withColumn("bad", f.lit(None).cast("string"))))
    if sources.combined:
        frames.append(with_cause(_combined(spark.read.text(list(sources.combined)))))
    if sources.parquet:
        frames.append(with_cause(_of_parquet(spark.read.parquet(*sources.parquet))))
    return reduce(lambda one, other: one.unionByName(other), frames)


def as_text() -> Column:
    """An event as JSON text, which ``event_in`` parses."""
    columns = [f.col(name).alias(_logged(name)) for name in ("event", *_OF_ALL, *OF_EVENTS)]
    return f.to_json(f.struct(*columns))


def event_in(line: str) -> LogEvent | None:
    """Parses an event line; None for other lines."""
    try:
        said = json.loads(line)
    except ValueError:
        return None
    if not isinstance(said, dict) or said.get("event") is None:
        return None
    if not isinstance(said.get("ts"), int | float) or isinstance(said["ts"], bool):
        return None
    texts = {
        name: value if isinstance(value, str) or value is None else json.dumps(value)
        for name in ("event", *_OF_ALL, *OF_EVENTS)
        for value in (said.get(_logged(name)),)
    }
    return _event(texts | {"ts": float(said["ts"])})


def requests(lines: DataFrame) -> DataFrame:
    """The lines without the events."""
    return lines.where(f.col("event").isNull() | f.col("cause").isNotNull()).drop("event", *OF_EVENTS)


def events(lines: DataFrame) -> list[LogEvent]:
    """All events, in no order; if there are more than ``EVENTS_MAX``, one more than that."""
    told = lines.where(f.col("event").isNotNull() & f.col("ts").isNotNull() & f.col("cause").isNull())
    rows = told.select("event", *_OF_ALL, *OF_EVENTS).limit(EVENTS_MAX + 1).collect()
    return [_event(row.asDict()) for row in rows]


def _event(row: Mapping[str, Any]) -> LogEvent:
    """Makes an event from its time and the texts of all other fields."""
    return LogEvent(
        row["event"], row["ts"], row["of"] or row["node"] or "", _whole(row["index"]), row["view"] or "",
        _names(row["members"]), row["primary"] == "true", row["policy"] or "", row["text"] or "",
        _whole(row["capacity_bps"]) or 0, (row["node"] or "") if row["of"] else "", row["repeated"] == "true",
        row["resource"] or "", row["pool"] or "", _whole(row["limit"]) or 0, row[LIMITED_BY] or "",
        _whole(row["request_bytes"]) or 0,
    )  # fmt: skip


def without_copies(events: Iterable[LogEvent], known: Iterable[LogEvent] = ()) -> list[LogEvent]:
    """Drops repeated events whose original, or another copy, is among the events or already ``known``.

    Every new log file begins with copies of the events in force.
    """
    events = list(events)
    seen = {event for event in events if not event.repeated} | {event._replace(repeated=False) for event in known}
    kept = []
    for event in events:
        original = event._replace(repeated=False)
        if not event.repeated or original not in seen:
            kept.append(event)
            seen.add(original)
    return kept


def _whole(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _names(text: str | None) -> tuple[str, ...]:
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return ()
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()


def _of_parquet(raw: DataFrame) -> DataFrame:
    """Adds missing columns as null, and converts columns of events to text."""
    kinds = {field.name: field.dataType for field in raw.schema.fields}
    for field in LINE_SCHEMA.fields:
        if field.name not in kinds or field.name == "bad":
            raw = raw.withColumn(field.name, f.lit(None).cast(field.dataType))
        elif isinstance(kinds[field.name], t.ArrayType):
            raw = raw.withColumn(field.name, f.to_json(field.name))
        elif field.name in (*OF_EVENTS, "cause"):
            raw = raw.withColumn(field.name, f.col(field.name).cast("string"))
    return raw


def with_cause(raw: DataFrame) -> DataFrame:
    """Adds ``cause``: the fault of a line, null for a good line."""
    raw = raw.withColumnRenamed("cause", LIMITED_BY)
    numbers = ("bytes", "queue_ms", "service_ms", "total_ms")
    bad, trimmed = f.col("bad"), f.rtrim("bad")
    is_request = f.col("event").isNull()
    cause = f.when(
        bad.isNotNull() & (is_request | f.col("ts").isNull()),  # events need no numbers of requests
        f.when(~f.ltrim("bad").startswith("{"), "not a JSON object")
        .when(~trimmed.endswith("}"), "cut off")
        .when(f.coalesce("rid", "node", "class", "decision", "event").isNull(), "not valid JSON")
        .otherwise("a field of the wrong type"),
    )
    cause = cause.when(~is_request, _wrong_with_event())
    for name in ("ts", "rid", "node", "class", "decision", "status", *numbers):
        cause = cause.when(f.col(name).isNull(), f"no field '{name}'")
    cause = cause.when(~f.col("decision").isin(*DECISIONS), "unknown decision")
    out_of_range = reduce(lambda one, other: one | other, (~(f.col(name) >= 0) for name in ("ts", *numbers)))
    cause = cause.when(out_of_range, "a number out of range")
    lacks_number = reduce(lambda one, other: one + other, (f.col(name) for name in ("ts", "status", *numbers))).isNull()
    return (
        raw.withColumn("cause", cause)
        .where(~is_request | ~f.col("method").eqNullSafe("-") | lacks_number)
        .select(
            *_TYPES,
            *OF_EVENTS,
            "cause",
            "bad",
            f.input_file_name().alias("file"),  # not ``_metadata``: that copies every line once more
            (f.col("ts") + f.col("queue_ms") / 1000).alias("at"),
        )
    )


def _wrong_with_event() -> Column:
    """The cause of a bad event, or null. Of unknown events only the time and the node are checked."""
    cause = f.when(f.col("ts").isNull(), "no field 'ts'").when(~(f.col("ts") >= 0), "a number out of range")
    cause = cause.when(f.col("node").isNull(), "no field 'node'")
    for kind, names in _NEEDED.items():
        for name in names:
            cause = cause.when((f.col("event") == kind) & f.col(name).isNull(), f"no field '{name}'")
    for name, form in _FORMS.items():
        is_wrong = f.col("event").isin(*_NEEDED) & ~f.col(name).rlike(f"^({form})$")
        cause = cause.when(is_wrong, "a field of the wrong type")
    return cause


def narrow(lines: DataFrame, response: str) -> DataFrame:
    """Keeps only the columns that the analysis uses."""
    file = f.when(f.col("cause").isNotNull(), f.replace(f.col("file"), f.lit("file:///"), f.lit("file:/"))).alias(
        "file"
    )
    dropped = {"method", "reason", "file"} | ({"total_ms"} if response != "total" else set())
    return lines.select(*(name for name in lines.columns if name not in dropped), file)


def _combined(raw: DataFrame) -> DataFrame:
    """Parses the combined format: no class, no times, and the decision as far as the status shows it."""

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
        **{name: f.lit(None).cast("string") for name in ("reason", "event", "resource", *OF_EVENTS)},
        "work": f.lit(None).cast("double"),
    }
    bad = f.when(~is_line, f.col("value"))
    blank = f.trim("value") == ""
    columns = [f.when(is_line, value).alias(name) for name, value in values.items()]
    return raw.where(~blank).select(*columns, bad.alias("bad"))


def _sql(pattern: str) -> str:
    return pattern.replace("\\", "\\\\").replace("'", "\\'")
