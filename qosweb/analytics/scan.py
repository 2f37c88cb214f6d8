"""One pass over the lines for all that is added up of them: sums by slot, times, pages and clients, names of requests.

To read JSON is what costs; to keep the lines for a second question costs as much again. So each line goes at once into
the groups of all questions (SQL calls that grouping sets), and what comes out is small and is kept.

A name of a request that ends in a number (``4f1c-781``) shares its group with its 63 neighbours: one bit for each. If
there are more lines than bits, one of them ended twice. Other names have groups of their own.
Neighbours: ``cells`` and ``tables`` go on from here, ``asks`` asks for single lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from qosweb.analytics import cells, tables
from qosweb.analytics.policies import EVERY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from qosweb.analytics.rows import Limits

DIGITS_MAX = 17
_SETS = {
    "slots": cells.KEYS,
    "waits": ("window_s", "node", "class", "cause", "wait_step"),
    "services": ("window_s", "node", "class", "cause", "service_step"),
    "pages": ("cause", "path"),
    "clients": ("cause", "client"),
    "names": ("cause", "stem", "block"),
}


class Scan:
    """``kept`` has all groups; it is to be cached, and each table is a part of it."""

    def __init__(
        self, lines: DataFrame, limits: Limits, responses_ms: Sequence[int], *, one_policy: bool, response: str
    ) -> None:
        slot = f.floor(f.col("at") / limits.slot_s)
        ended = f.col("decision").isin(*cells.ENDED)
        stem, block, bit = names()
        named = ended & (f.col("rid") != "")
        keys = {
            "slot": slot,
            "policy": f.lit(EVERY) if one_policy else f.coalesce("policy", f.lit("")),
            "view": f.coalesce("view", f.lit("")),
            "window_s": f.floor(slot * limits.slot_s / limits.window_s) * limits.window_s,
            "wait_step": f.when(ended, tables.step(f.col("queue_ms"))),
            "service_step": f.when(f.col("decision") == "served", tables.step(f.col("service_ms"))),
            "stem": f.when(named, stem),
            "block": f.when(named, block),
        }
        served_bytes = f.sum(f.when(f.col("decision") == "served", f.col("bytes")).otherwise(0))
        sums = cells.sums(limits, responses_ms, response) | {"served_bytes": served_bytes, "bits": f.bit_or("bit")}
        self._of_slots = [name for name in sums if name not in ("served_bytes", "bits")]
        # What is wrong with a line is asked once: its sums mean nothing, but they are in groups of their own.
        ready = lines.withColumns(keys | {"bit": bit})
        columns = {name: f.col(name) for of_set in _SETS.values() for name in of_set}
        self._numbers = {name: cells.grouping_number(of_set, tuple(columns)) for name, of_set in _SETS.items()}
        self.kept = ready.groupingSets(
            [[columns[name] for name in of_set] for of_set in _SETS.values()], *columns.values()
        ).agg(
            f.grouping_id().alias("of_what"),
            f.count(f.lit(1)).alias("lines"),
            *(total.alias(name) for name, total in sums.items()),
        )

    def slots(self) -> DataFrame:
        """Sums by slot, policy, view, node, class; bad lines by file and cause."""
        return self._part("slots").select(*cells.KEYS, "lines", *self._of_slots)

    def times(self) -> DataFrame:
        """How many requests waited, and took, how long: by window, node, class and step of time."""
        is_wait = f.col("of_what") == self._numbers["waits"]
        step = f.when(is_wait, f.col("wait_step")).otherwise(f.col("service_step"))
        return (
            self._good("waits", "services")
            .select(
                "window_s", "node", f.col("class").alias("name"), f.when(is_wait, 0).otherwise(1).alias("what"),
                step.alias("step"), f.col("lines").alias("requests"),
            )
            .where(f.col("step").isNotNull())
        )  # fmt: skip

    def asked_for(self) -> DataFrame:
        """How often each page was asked for, and each client asked."""
        is_page = f.col("of_what") == self._numbers["pages"]
        return self._good("pages", "clients").select(
            f.when(is_page, "page").otherwise("client").alias("what"),
            f.when(is_page, f.col("path")).otherwise(f.col("client")).alias("name"),
            f.col("lines").alias("requests"),
            "served",
            f.col("served_bytes").alias("sent_bytes"),
        )

    def suspects(self) -> DataFrame:
        """Groups of names with more lines than names."""
        return (
            self._good("names")
            .where(f.col("stem").isNotNull() & (f.col("lines") > f.bit_count("bits")))
            .select("stem", "block", (f.col("lines") - f.bit_count("bits")).alias("too_many"))
        )

    def _part(self, *names: str) -> DataFrame:
        """No unions of parts: Spark would not see that both sides are kept, and would read the lines again."""
        return self.kept.where(f.col("of_what").isin(*(self._numbers[name] for name in names)))

    def _good(self, *names: str) -> DataFrame:
        return self._part(*names).where(f.col("cause").isNull())


def names() -> tuple[Column, Column, Column]:
    """Of the name of a request: what its group has in common, the number of the group (or null), and its bit."""
    last = f.substring_index("rid", "-", -1)
    number = f.when(f.length(last) <= DIGITS_MAX, last.try_cast("long"))
    known = number.isNotNull() & (number >= 0)
    stem = f.when(known, f.substring("rid", f.lit(1), f.length("rid") - f.length(last))).otherwise(f.col("rid"))
    block = f.when(known, f.shiftright(number, 6))
    bit = f.when(known, f.call_function("shiftleft", f.lit(1).cast("long"), number.bitwiseAND(63).cast("int")))
    return stem, block, bit.otherwise(f.lit(1).cast("long"))
