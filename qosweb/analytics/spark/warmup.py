"""A JVM that has just started is slow at whatever it does first. Some of that is done ahead here, beside the start.

Spark starts on one processor: it loads its classes one by one. Meanwhile a query that resembles those of the analysis
is parsed and analysed on another one, which takes no session, and as soon as there is one some lines are
read and added up, while the analysis is still making its own query. Python, which has nothing to do until there is a
session, loads what comes after that. What comes out is of no interest, nor is what goes wrong with it: the analysis
itself will tell.
Neighbours: ``session`` has the moment at which there is a JVM and no session yet.
"""

from __future__ import annotations

import importlib
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from qosweb.analytics.read.sources import Sources

_LATER = ("qosweb.analytics.analysis", "qosweb.analytics.report.terminal", "pyspark.sql.classic.dataframe")
_CATALYST = "org.apache.spark.sql.catalyst"
_RESEMBLING = """
    select key_text, key_number, what, grouping_id() as of_what, count(1) as lines, sum(size) as size, max(at) as at,
        bit_or(bit) as bits, percentile(at, array(0.5D, 0.9D), lines) as took
    from (
        select what, key_text, key_number, size, at, bit, lines from (
            select
                floor(at / 10) * 10 as window_s,
                case when bad is not null and startswith(ltrim(bad), '<') and not endswith(rtrim(bad), '>') then 'a'
                    when at is null or not (decision in ('b', 'c')) then to_json(struct(bad, at)) end as cause,
                coalesce(substring_index(text, '-', -1), '') as stem,
                shiftleft(cast(1 as long), cast(try_cast(text as long) & 63 as int)) as bit,
                cast(case when at < 0.01D then 0 else 1 + floor(ln(at / 0.01D) / 0.02D) end as long) as step,
                length(substring(text, 1, 5)) + shiftright(size, 6) as length,
                case when at >= 5 and not text <=> '-' then size else 0 end as size, at, 1L as lines
            from {lines}
        ) unpivot include nulls ((key_text, key_number) for what in ((cause, window_s) as one, (stem, step) as other))
    )
    where key_text is not null and key_number between 1 and 9
    group by grouping sets ((key_text, what), (key_number), ())
"""
_NO_LINES = "values ('x', 'served', 1.5D, 1L, cast(null as string)) as lines(text, decision, at, size, bad)"
_SCHEMA = "class string, decision string, ts double, bytes long, bad string"


class WarmUp:
    """``begin`` when there is a JVM; ``going_on`` is a with block on the session."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._threads: list[threading.Thread] = []

    def begin(self, jvm: Any) -> None:
        self._run(lambda: plan_ahead(jvm))
        self._run(load_ahead)

    @contextmanager
    def going_on(self, spark: SparkSession) -> Iterator[None]:
        """It is over when the block is: nobody asks a session that ends."""
        self._run(lambda: read_ahead(spark, self._sources))
        try:
            yield
        finally:
            for thread in self._threads:
                thread.join()

    def _run(self, act: Callable[[], None]) -> None:
        def tried() -> None:
            with suppress(Exception):
                act()

        thread = threading.Thread(target=tried, daemon=True)
        thread.start()
        self._threads.append(thread)


def load_ahead() -> None:
    for name in _LATER:
        importlib.import_module(name)


def plan_ahead(jvm: Any) -> Any:
    """A query as Spark understands it; this takes no session."""
    plan = getattr(jvm, f"{_CATALYST}.parser.CatalystSqlParser")().parsePlan(_RESEMBLING.format(lines=_NO_LINES))
    return getattr(getattr(jvm, f"{_CATALYST}.analysis.SimpleAnalyzer$"), "MODULE$").execute(plan)


def read_ahead(spark: SparkSession, sources: Sources) -> None:
    """The same query on lines of the first log."""
    if not sources.json:
        return
    lines = spark.read.schema(_SCHEMA).option("columnNameOfCorruptRecord", "bad").json(sources.json[0])
    kept = spark.sql(_RESEMBLING, lines=lines.toDF("text", "decision", "at", "size", "bad")).cache()
    kept.collect()
    kept.unpersist()
