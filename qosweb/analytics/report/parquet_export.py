"""The findings as Parquet, for those who go on with them; and, on request, the lines for a second look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.analytics.read.log_lines import LINE_SCHEMA, read_lines
from qosweb.analytics.read.tables import PERCENTILES
from qosweb.analytics.report.json_report import outcome_row

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from qosweb.analytics.findings import Findings
    from qosweb.analytics.read.sources import Sources

VERDICTS = (
    "kind string, rule string, line int, policy string, window long, scope string, outcome string, reason string, "
    "unit string, demand double, promise double, got double, whole double, rids array<string>"
)
TABLE = (
    "window long, node string, class string, served long, denied long, expired long, failed long, gave_up long, "
    + (
        "refused long, redirected long, forwarded long, bytes long, "
        + ", ".join(f"{what}_p{100 * part:g} double" for what in ("wait_ms", "service_ms") for part in PERCENTILES)
    )
)


def keep_tables(spark: SparkSession, findings: Findings, out: Path) -> None:
    verdicts = [
        (
            one.kind, one.rule, one.line, one.policy, one.key.window_s if one.key else None,
            one.key.scope if one.key else None, one.outcome, one.reason, one.unit, _number(one.demand),
            _number(one.promise), _number(one.got), _number(one.whole), list(findings.samples.get(one, ())),
        )
        for one in (*findings.run, *findings.cluster, *findings.windows)
    ]  # fmt: skip
    spark.createDataFrame(verdicts, VERDICTS).coalesce(1).write.mode("overwrite").parquet(str(out / "verdicts.parquet"))
    rows = [tuple(outcome_row(row).values()) for row in findings.table]
    spark.createDataFrame(rows, TABLE).coalesce(1).write.mode("overwrite").parquet(str(out / "table.parquet"))


def keep_lines(spark: SparkSession, sources: Sources, out: Path) -> None:
    """Good request lines and event lines, as ``qosweb analyze`` reads them again."""
    lines = read_lines(spark, sources)
    good = lines.where(lines["cause"].isNull()).select(*(name for name in LINE_SCHEMA.names if name != "bad"))
    good.write.mode("overwrite").parquet(str(out / "lines.parquet"))


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
