"""What is done ahead has to be what Spark can do: nobody sees it fail."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from qosweb.analytics.read import sources
from qosweb.analytics.spark.warmup import WarmUp, plan_ahead, read_ahead

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_spark_understands_what_is_asked_ahead(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text('{"class": "a", "decision": "served", "ts": 1.5, "bytes": 3}\nno line\n')
    assert plan_ahead(spark.sparkContext._jvm).resolved()
    read_ahead(spark, sources.find([str(path)]))


def test_what_goes_wrong_ahead_is_kept_quiet(capfd: Any) -> None:
    asked = threading.Event()

    class Broken:
        def __getattr__(self, name: str) -> Any:
            asked.set()
            raise RuntimeError(name)

    broken: Any = Broken()
    ahead = WarmUp(sources.Sources(json=("nowhere",)))
    ahead.begin(broken)
    with ahead.going_on(broken):
        pass
    assert asked.is_set()
    assert capfd.readouterr() == ("", "")
