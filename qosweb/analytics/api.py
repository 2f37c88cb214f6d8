"""Public Python interface of the analysis: sessions, logs as DataFrames, verdicts. ``qosweb.analytics`` exports it.

PySpark is imported when a function is called. ``docs/reference/analysis.md`` documents columns, options and the report.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qosweb.analytics.read.rows import AnalysisLimits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from qosweb.analytics.findings import Findings
    from qosweb.analytics.read.sources import Sources

    Name = str | os.PathLike[str]
    Names = Name | Sequence[Name]


def open_session(
    master: str = "local[*]", *, app_name: str = "qosweb analytics", conf: Mapping[str, str] | None = None
) -> AbstractContextManager[SparkSession]:
    """Opens a new Spark session for a with block, on a Java that is found or was installed with the extra.

    ``conf`` adds Spark settings. Raises AnalyticsUnavailableError if Spark cannot start, and RuntimeError if this
    process has a session already: all functions here take any SparkSession, so use that session.
    """
    from qosweb.analytics.spark.session import spark_session

    return spark_session(app_name, master, conf=conf)


def read_requests(spark: SparkSession, logs: Names, *, log_format: str | None = None) -> DataFrame:
    """Reads the good request lines of files, folders and globs, with the documented columns.

    ``log_format`` is ``json``, ``combined`` or ``parquet``; by default it is detected for each file. Raises UsageError
    for logs that do not exist.
    """
    from qosweb.analytics.read import log_lines

    good = _lines(spark, logs, log_format).where("cause is null and event is null")
    return good.select(*(name for name in log_lines.REQUEST_SCHEMA.names if name != "event"))


def read_events(spark: SparkSession, logs: Names, *, log_format: str | None = None) -> DataFrame:
    """Reads the good event lines, with all documented columns; fields that an event lacks are null."""
    from pyspark.sql import functions as f

    from qosweb.analytics.read.log_lines import LIMITED_BY

    good = _lines(spark, logs, log_format).where("cause is null and event is not null")
    return good.select(
        "event", "ts", "node", f.col("index").cast("long").alias("index"), "view",
        f.from_json("members", "array<string>").alias("members"), (f.col("primary") == "true").alias("primary"),
        "policy", "text", "of", f.col("capacity_bps").cast("long").alias("capacity_bps"),
        "resource", "pool", f.col("limit").cast("long").alias("limit"), f.col(LIMITED_BY).alias("cause"),
        f.col("request_bytes").cast("long").alias("request_bytes"),
    )  # fmt: skip


def read_bad_lines(spark: SparkSession, logs: Names, *, log_format: str | None = None) -> DataFrame:
    """Reads the bad lines: ``file``, ``cause``, and ``line``, the text as far as it is known."""
    from qosweb.analytics.read import line_queries

    return line_queries.bad_texts(_lines(spark, logs, log_format))


def analyze(
    spark: SparkSession,
    logs: Names,
    *,
    spec: Name | None = None,
    limits: AnalysisLimits | None = None,
    response: str = "service",
    log_format: str | None = None,
) -> Analysis:
    """Judges the logs of all nodes of a cluster, as ``qosweb analyze`` does.

    ``spec`` is a file with a specification that replaces those in the logs. ``response`` says what a response time
    measures: ``service`` or ``total``. Raises UsageError if no request can be read.
    """
    from qosweb.analytics.analysis import analyse
    from qosweb.analytics.read import policies
    from qosweb.analytics.read.rows import AnalysisRequest

    policy = policies.from_file(os.fspath(spec)) if spec is not None else None
    request = AnalysisRequest(_sources(logs, log_format), policy, limits or AnalysisLimits(), response)
    return Analysis(spark, analyse(spark, request))


@dataclass(frozen=True)
class Analysis:
    """The result of ``analyze``."""

    spark: SparkSession
    findings: Findings

    @property
    def outcome(self) -> str:
        """``held``, ``violated`` or ``not tested``."""
        return self.findings.outcome

    def verdicts(self) -> DataFrame:
        """One verdict for each rule (``window`` is null), each rule of the cluster, and each rule in each window."""
        from qosweb.analytics.report.parquet_export import verdict_frame

        return verdict_frame(self.spark, self.findings)

    def table(self) -> DataFrame:
        """Counts, bytes and latency percentiles by window, node and class; null means all."""
        from qosweb.analytics.report.parquet_export import outcome_frame

        return outcome_frame(self.spark, self.findings)

    def report(self) -> dict[str, object]:
        """The content of ``report.json``."""
        from qosweb.analytics.report.json_report import as_json

        return as_json(self.findings)

    def write(self, out: Name) -> None:
        """Writes ``report.html``, ``report.json``, ``verdicts.parquet`` and ``table.parquet`` into a folder."""
        from qosweb.analytics.report.json_report import write_report
        from qosweb.analytics.report.parquet_export import export_tables

        folder = Path(out).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        export_tables(self.spark, self.findings, folder)
        write_report(self.findings, folder)


def _lines(spark: SparkSession, logs: Names, log_format: str | None) -> DataFrame:
    from qosweb.analytics.read.log_lines import read_lines

    return read_lines(spark, _sources(logs, log_format))


def _sources(logs: Names, log_format: str | None) -> Sources:
    from qosweb.analytics.read import sources

    names = [logs] if isinstance(logs, str | os.PathLike) else logs
    return sources.find([os.fspath(name) for name in names], log_format)
