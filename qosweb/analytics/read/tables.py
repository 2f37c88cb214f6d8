"""Report tables: outcomes and latency percentiles by class, node and window; top pages and clients.

Latencies are counted in a histogram with buckets 2% apart, so that percentiles of parts of a log can be merged. They
are exact to 1% of their value.
Neighbours: ``line_scan`` counts; ``flash_crowds`` and ``capacity_needs`` use these tables on the driver.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData

PERCENTILES = (0.5, 0.9, 0.99)
SHORTEST_MS = 0.01  # shorter times count as 0
STEP = 1.02
TOP = 20


class OutcomeCounts(NamedTuple):
    """Outcomes of requests. ``window_s``, ``node`` and ``name`` are None in totals over all of them."""

    window_s: int | None
    node: str | None
    name: str | None
    served: int
    denied: int
    expired: int
    failed: int
    gave_up: int
    refused: int
    redirected: int
    forwarded: int
    blocked: int  # refused because of the block list: no guarantee applies
    sent_bytes: int
    wait_ms: tuple[float, ...] = ()  # of ended requests, at PERCENTILES
    service_ms: tuple[float, ...] = ()  # of served requests

    @property
    def asked(self) -> int:
        return self.served + self.denied + self.expired + self.failed + self.gave_up


class Top(NamedTuple):
    what: str
    name: str
    requests: int
    served: int
    sent_bytes: int


def _by_all_keys(table: DataFrame) -> GroupedData:
    window, node, name = f.col("window_s"), f.col("node"), f.col("name")
    sets = [[window, name], [window, node], [node, name], [name], [node], []]
    return table.groupingSets(sets, window, node, name)


def step(took_ms: Column) -> Column:
    """The histogram bucket of a time."""
    numbered = 1 + f.floor(f.log(took_ms / SHORTEST_MS) / math.log(STEP))
    return f.when(took_ms < SHORTEST_MS, 0).otherwise(numbered).cast("int")


def _ms(step: float) -> float:
    """The middle of a bucket."""
    return round(SHORTEST_MS * STEP ** (step - 0.5), 3) if step >= 1 else 0.0


Times = dict[tuple[int | None, str | None, str | None], tuple[tuple[float, ...], ...]]


def percentiles(counted: DataFrame) -> Times:
    """Percentiles of waits and service times, for the same keys as the outcomes of ``slot_sums``."""

    def of(what: int) -> Column:
        return f.percentile(f.when(f.col("what") == what, f.col("step")), list(PERCENTILES), f.col("requests"))

    rows = _by_all_keys(counted).agg(of(0).alias("wait"), of(1).alias("service")).collect()
    return {
        (row["window_s"], row["node"], row["name"]): tuple(
            tuple(_ms(step) for step in row[what] or ()) for what in ("wait", "service")
        )
        for row in rows
    }


def top(grouped: DataFrame) -> list[Top]:
    """The busiest pages and clients."""
    first = Window.partitionBy("what").orderBy(f.desc("requests"), "name")
    rows = grouped.withColumn("number", f.row_number().over(first)).where(f.col("number") <= TOP).collect()
    rows.sort(key=lambda row: (row["what"] != "page", row["number"]))
    return [Top(row["what"], row["name"] or "", row["requests"], row["served"], row["sent_bytes"]) for row in rows]
