"""Exports the findings as DataFrames and Parquet; with ``--keep-lines`` also the good log lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.analytics.read.log_lines import LIMITED_BY, LINE_SCHEMA, read_lines
from qosweb.analytics.read.tables import PERCENTILES
from qosweb.analytics.report.json_report import outcome_row, verdict_row

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from qosweb.analytics.findings import Findings
    from qosweb.analytics.read.sources import Sources

VERDICTS = (
    "kind string, rule string, line int, policy string, window long, scope string, pool string, cause string, "
    "outcome string, reason string, unit string, demand double, promise double, got double, whole double, "
    "rids array<string>"
)
TABLE = (
    "window long, node string, class string, served long, denied long, expired long, failed long, gave_up long, "
    "refused long, redirected long, forwarded long, blocked long, bytes long, "
    + ", ".join(f"{what}_p{100 * part:g} double" for what in ("wait_ms", "service_ms") for part in PERCENTILES)
)


def verdict_frame(spark: SparkSession, findings: Findings) -> DataFrame:
    """All verdicts: of the run, of the cluster, and of windows."""
    rows = []
    for one in (*findings.run, *findings.cluster, *findings.windows):
        numbers = {name: getattr(one, name) for name in ("demand", "promise", "got", "whole")}
        floats = {name: None if value is None else float(value) for name, value in numbers.items()}
        rows.append(tuple((verdict_row(one, findings) | floats).values()))
    return spark.createDataFrame(rows, VERDICTS)


def outcome_frame(spark: SparkSession, findings: Findings) -> DataFrame:
    """Outcomes of requests, by window, node and class."""
    return spark.createDataFrame([tuple(outcome_row(row).values()) for row in findings.table], TABLE)


def export_tables(spark: SparkSession, findings: Findings, out: Path) -> None:
    for name, frame in (("verdicts", verdict_frame), ("table", outcome_frame)):
        frame(spark, findings).coalesce(1).write.mode("overwrite").parquet(str(out / f"{name}.parquet"))


def export_lines(spark: SparkSession, sources: Sources, out: Path) -> None:
    """Exports good request lines and event lines in a form that ``qosweb analyze`` reads."""
    lines = read_lines(spark, sources)
    names = [LIMITED_BY if name == "cause" else name for name in LINE_SCHEMA.names if name != "bad"]
    good = lines.where(lines["cause"].isNull()).select(*names).withColumnRenamed(LIMITED_BY, "cause")
    good.write.mode("overwrite").parquet(str(out / "lines.parquet"))
