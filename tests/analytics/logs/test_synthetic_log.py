"""A log of ``loadgen trace --as-log`` has its own specification, and the analysis finds it held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.cli import main
from qosweb.analytics.analysis import analyse
from qosweb.analytics.read import sources
from qosweb.analytics.read.rows import HELD, AnalysisRequest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_the_guarantees_of_a_synthetic_log_are_held(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    mix = ["--mix", "/free=4:/free/{1..9}", "--mix", "paid=4:/paid/x", "--mix", "shop=1:/shop"]
    shares = ["--share", "/free=20%", "--share", "paid=50%"]
    assert main(["trace", "--rate", "200", "--duration", "30s", *mix, *shares, "--as-log", "--out", str(log)]) == 0
    found = analyse(spark, AnalysisRequest(sources.find([str(log)])))
    assert (found.outcome, found.notes) == (HELD, [])
    held = {verdict.rule for verdict in found.run if verdict.outcome == HELD}
    assert {"</free>.server_resource = 20% hard", "paid.server_resource = 50% hard"} <= held
