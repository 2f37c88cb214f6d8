"""Spark streaming over growing logs: aggregates micro-batches and judges each window when it closes.

Every line counts exactly once, whenever the process is killed: a line is in one cut (``log_tail``), Spark's checkpoint
fixes which cuts belong to a batch, and the sums of a batch lie in a folder that a repeated batch overwrites
(``batches``).

The watermark is the latest decision time of a request, less the allowed lateness. It does not move while the stream
catches up with a backlog. A window that ends before the watermark is closed and judged. A line for a closed
window is not added; it is counted as a bad line (``LATE``) and kept in the folder of bad lines.
Departs: Spark's own watermark drops late lines and reports only their number, so the batches store their own watermark.
Neighbours: ``findings`` judges; ``follower`` is the command.
"""

from __future__ import annotations

import logging
import math
import shutil
import time
from functools import reduce
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as f

from qosweb.analytics.findings import Findings, LogAggregates, conclude, outside, policies_of
from qosweb.analytics.follow import batches, log_tail
from qosweb.analytics.read import line_queries, policies, slot_sums, tables
from qosweb.analytics.read.line_scan import LineScan
from qosweb.analytics.read.log_lines import LINE_SCHEMA, events, narrow, requests, with_cause, without_copies
from qosweb.errors import UsageError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from qosweb.analytics.read.rows import AnalysisRequest, Verdict

LATE = "came after its window was judged"
AHEAD = "its time is far ahead of all others"
AHEAD_MAX_S = 86_400.0
CLOCKS_DIFFER_S = 3600.0
TWICE_KEPT_MAX = 1000  # per batch
CUTS_AT_ONCE_MAX = 16
_ENDED = ("served", "denied", "expired", "failed")


class Stream:
    """Calls ``publish`` with the findings whenever a window closes, and at the end, then including open windows."""

    def __init__(
        self,
        spark: SparkSession,
        request: AnalysisRequest,
        logs: log_tail.LogTail,
        checkpoint: Path,
        late_s: float,
        publish: Callable[[Findings], None],
        bad_folder: Path | None = None,
    ) -> None:
        self._spark, self._request, self._logs, self._late_s = spark, request, logs, late_s
        self._publish, self._bad_folder = publish, bad_folder
        self._checkpoint = checkpoint
        self._batches = batches.Batches(spark, checkpoint)
        self._failed: Exception | None = None
        self.lines = 0  # lines read since the start

    def run(self, stop: threading.Event, every_s: float) -> None:
        """Runs until ``stop`` is set; then reads the remaining lines and publishes the last findings."""
        if not (of_py4j := logging.getLogger("py4j")).handlers:
            of_py4j.addHandler(logging.NullHandler())  # errors are raised here; py4j need not log them as well
        query = self._start(every_s)
        try:
            while query.isActive:
                for _ in range(CUTS_AT_ONCE_MAX):
                    if not self._logs.cut() or not self._logs.has_more or stop.is_set():
                        break
                if stop.wait(every_s):
                    break
            if query.isActive:
                self._logs.cut()
                query.processAllAvailable()
        except Exception as error:
            raise self._failed or error from None
        finally:
            query.stop()
        if (trouble := self._failed or query.exception()) is not None:
            raise trouble
        last = self._batches.last()
        if last is None:
            raise UsageError("the logs contain no lines")
        findings = self._findings(last, None, self._batches.note(last))
        if findings is None:
            raise UsageError("no request could be read from the logs")
        self._publish(findings)

    def _start(self, every_s: float) -> StreamingQuery:
        reader = self._spark.readStream.schema(LINE_SCHEMA).option("columnNameOfCorruptRecord", "bad")
        reader = reader.option("maxFileAge", "36500d")  # a cut is never too old
        lines = with_cause(reader.json(str(self._logs.cuts / "[0-9]*")))
        return (
            lines.writeStream.foreachBatch(self._on_batch)
            .option("checkpointLocation", str(self._checkpoint / "spark"))
            .trigger(processingTime=f"{max(1, round(every_s * 1000))} milliseconds")
            .start()
        )

    def _on_batch(self, read: DataFrame, number: int) -> None:
        read = read.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            self._batch(read, number)
        except Exception as error:
            self._failed = error
            raise
        finally:
            read.unpersist()

    def _batch(self, read: DataFrame, number: int) -> None:
        limits, response = self._request.limits, self._request.response
        before = self._batches.note(number - 1)
        self._delete_old_data(number, before)
        folder = self._batches.begin(number)
        lines = narrow(self._with_place(read, before.watermark_s), response).persist(StorageLevel.MEMORY_AND_DISK)
        told = before.events + (new := without_copies(events(lines), before.events))
        known, _ = policies_of(self._request, told)
        responses_ms = policies.response_limits(known)
        asked = requests(lines)
        scan = LineScan(lines, limits, responses_ms, one_policy=self._request.spec is not None, response=response)
        scan.kept.cache()
        sums = {
            batches.SLOTS: scan.slots(),
            batches.TIMES: scan.times(),
            batches.ASKED_FOR: scan.asked_for(),
        }
        accessed = [
            line_queries.query_accesses(self._spark, asked, policy, limits)
            for policy in known.values()
            if "accessed" in policy.subjects
        ]
        if accessed:
            sums[batches.ACCESSED] = reduce(lambda one, other: one.unionByName(other), accessed)
        for name, table in sums.items():
            table.coalesce(1).write.parquet(str(folder / name))
        scan.kept.unpersist()
        good = asked.where(f.col("cause").isNull())
        self._batches.keep_lines(number, good.drop("cause", "bad", "file", "cut"))
        facts = lines.agg(
            f.max(f.when(f.col("cause").isNull(), f.col("at"))).alias("latest"),
            f.count(f.when(f.col("cause").isNotNull(), 1)).alias("bad"),
            f.count(f.when(f.col("cause").isNull() & _ends_named(), 1)).alias("named"),
            f.count(f.lit(1)).alias("lines"),
            f.sort_array(f.collect_set("cut")).alias("cuts"),
        ).first()
        assert facts is not None
        if facts["bad"] and self._bad_folder:
            line_queries.write_bad_lines(lines, str(self._bad_folder / f"{number:09d}"))
        latest_s, cuts = facts["latest"], list(facts["cuts"])
        watermark_s = self._watermark(before.watermark_s, latest_s, cuts)
        note = batches.BatchNote(watermark_s, latest_s, cuts, new, self._twice(good), named=facts["named"])
        self._batches.end(number, note)
        lines.unpersist()
        self.lines += facts["lines"]
        self._judge_closed_windows(number, before.watermark_s, note)

    def _judge_closed_windows(self, number: int, before_s: float | None, note: batches.BatchNote) -> None:
        closed_s = self._closed_s(note.watermark_s)
        if closed_s is None or closed_s == self._closed_s(before_s):
            return
        whole = self._batches.note(number)
        if (findings := self._findings(number, closed_s, whole)) is None:
            return
        known = {tuple(sample.of) for sample in whole.samples}
        note.samples = [
            batches.Sample(_name(verdict), list(rids))
            for verdict, rids in findings.samples.items()
            if tuple(_name(verdict)) not in known
        ]
        self._batches.end(number, note)
        self._publish(findings)

    def _findings(self, number: int, closed_s: int | None, note: batches.BatchNote) -> Findings | None:
        """Findings of all batches up to one; None if there are no requests.

        ``closed_s`` limits them to closed windows; None includes the open ones.
        """
        limits = self._request.limits
        known, _ = policies_of(self._request, note.events)
        responses_ms = policies.response_limits(known)
        sums = self._batches.sums(number, responses_ms)
        of_slots, times = sums[batches.SLOTS], sums[batches.TIMES]
        if closed_s is not None:
            of_slots = of_slots.where(f.col("cause").isNotNull() | (f.col("slot") * limits.slot_s < closed_s))
            times = times.where(f.col("window_s") < closed_s)
        of_slots = of_slots.cache()
        try:
            twice = sorted(note.twice.items())
            gathered = LogAggregates(
                note.events,
                of_slots,
                lambda: tables.percentiles(times),
                lambda: tables.top(sums[batches.ASKED_FOR]),
                lambda: line_queries.DuplicateEnds(twice[: line_queries.TWICE_MAX], len(twice), note.named),
                lambda broken: self._samples(broken, note),
                lambda policy: line_queries.collect_accesses(sums[batches.ACCESSED], policy),
            )
            seen = slot_sums.survey(of_slots, limits)
            found = conclude(gathered, seen, self._request) if seen.requests else None
        finally:
            of_slots.unpersist()
        if found and closed_s is None:
            found.notes.append(
                "the last windows were still open when this was written: some of their lines may be missing"
            )
        return found

    def _samples(self, broken: Sequence[Verdict], note: batches.BatchNote) -> dict[Verdict, list[str]]:
        """Evidence found earlier, when the windows closed, and evidence for windows that close now."""
        known = {tuple(sample.of): sample.rids for sample in note.samples}
        shown = {verdict: known[at] for verdict in broken if (at := tuple(_name(verdict))) in known}
        new = [verdict for verdict in broken if verdict not in shown][: max(0, line_queries.SAMPLED_MAX - len(shown))]
        if new:
            lines = self._batches.lines().withColumn("cause", f.lit(None).cast("string"))
            views = sorted(outside(note.events))
            shown |= line_queries.samples(self._spark, lines, new, self._request.limits, self._request.response, views)
        return shown

    def _with_place(self, read: DataFrame, watermark_s: float | None) -> DataFrame:
        """Adds the log file and the cut to each line, and marks late lines and lines from the future as bad."""
        paths: list[Column] = []
        for at, path in enumerate(self._logs.paths):
            paths += [f.lit(f"{at:06d}{log_tail.SUFFIX}"), f.lit(path)]
        at_s = f.col("at")
        cause = f.when(f.col("cause").isNotNull(), f.col("cause"))
        if watermark_s is not None and (closed_s := self._closed_s(watermark_s)) is not None:
            slot_s = self._request.limits.slot_s
            ahead_s = max(watermark_s + self._late_s + AHEAD_MAX_S, time.time() + CLOCKS_DIFFER_S)
            cause = cause.when(f.floor(at_s / slot_s) * slot_s < closed_s, LATE).when(at_s > ahead_s, AHEAD)
        file = f.element_at(f.create_map(*paths), f.element_at(f.split("file", "/"), -1))
        is_event = f.col("event").isNotNull()
        return read.withColumns(
            {
                "cause": f.when(is_event, f.col("cause")).otherwise(cause),
                "file": file,
                "cut": f.element_at(f.split("file", "/"), -2),
            }
        )

    def _twice(self, good: DataFrame) -> dict[str, list[str]]:
        """Requests of this batch that ended more than once, in it or in an earlier batch whose lines are still kept."""
        here = good.where(_ends_named()).select("rid").distinct()
        said = (
            self._batches.lines()
            .where(_ends_named())
            .join(here, "rid")
            .groupBy("rid")
            .agg(f.sort_array(f.collect_list(f.concat_ws(" at ", "decision", "node"))).alias("said"))
        )
        rows = said.where(f.size("said") > 1).orderBy("rid").limit(TWICE_KEPT_MAX).collect()
        return {row["rid"]: list(row["said"]) for row in rows}

    def _watermark(self, before_s: float | None, latest_s: float | None, cuts: Sequence[str]) -> float | None:
        if latest_s is None or not cuts or cuts[-1].endswith(log_tail.MORE):
            return before_s
        return max(latest_s - self._late_s, before_s or 0.0)

    def _closed_s(self, watermark_s: float | None) -> int | None:
        """Windows that begin before this time are closed."""
        window_s = self._request.limits.window_s
        return None if watermark_s is None else math.floor(watermark_s / window_s) * window_s

    def _delete_old_data(self, number: int, before: batches.BatchNote) -> None:
        """Deletes data of batches before the last one, which Spark never repeats."""
        known, _ = policies_of(self._request, before.events)
        old = self._batches.note(number - 2)
        for cut in old.cuts:
            shutil.rmtree(self._logs.cuts / cut, ignore_errors=True)
        if before.watermark_s is not None:
            self._batches.forget_lines(number, before.watermark_s - self._late_s - self._request.limits.window_s)
        self._batches.merge(number - 2, policies.response_limits(known))


def _ends_named() -> Column:
    return f.col("decision").isin(*_ENDED) & (f.col("rid") != "")


def _name(verdict: Verdict) -> list[str | int]:
    key = verdict.key
    assert key is not None
    return [verdict.policy, verdict.kind, verdict.rule, verdict.line, key.window_s, key.scope, key.situation, key.pool]
